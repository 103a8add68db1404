// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package connector_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// Providers have connectors of different kinds. An unknown provider is a terminal error.
func ExampleByProvider() {
	connectors := connector.ByProvider{"edge": fake.New(), "core": fake.New()}
	for _, provider := range []string{"edge", "moon"} {
		conn, err := connectors.Connector(context.Background(), provider, "cluster1")
		fmt.Println(conn != nil, errors.Is(err, connector.ErrTerminal), err)
	}
	// Output:
	// true false <nil>
	// false true the cluster refused: unknown provider "moon": must be one of core, edge
}

// A driver returns an error with its class and its object.
func ExampleError() {
	var err error = &connector.Error{
		Class: connector.ErrRetryable, Object: appcontext.Object{Group: "apps", Kind: "Deployment", Name: "web"},
		Err: errors.New("conflict"),
	}
	fmt.Println(errors.Is(err, connector.ErrRetryable), errors.Is(connector.ClassOf(err), connector.ErrRetryable))
	fmt.Println(err)
	// Output:
	// true true
	// the cluster refused for now apps/Deployment web: conflict
}
