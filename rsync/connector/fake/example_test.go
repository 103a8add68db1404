// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// An in-memory cluster is unreachable first, and reachable later.
func ExampleNew() {
	ctx := context.Background()
	clusters := fake.New()
	edge := clusters.Cluster("edge", "cluster1")
	conn, err := clusters.Connector(ctx, "edge", "cluster1")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	settings := appcontext.Object{Kind: "ConfigMap", Namespace: "default", Name: "settings"}
	batch := connector.Batch{App: "web", Resources: []appcontext.Resource{{Object: settings, Manifest: []byte("{}")}}}

	edge.SetMode(fake.ModeUnreachable)
	err = conn.Apply(ctx, batch)
	fmt.Println(errors.Is(err, connector.ErrUnreachable), len(edge.Objects()))

	edge.SetMode(fake.ModeWorks)
	err = conn.Apply(ctx, batch)
	fmt.Println(err, len(edge.Objects()), edge.Count(fake.VerbApply))
	// Output:
	// true 0
	// <nil> 1 2
}
