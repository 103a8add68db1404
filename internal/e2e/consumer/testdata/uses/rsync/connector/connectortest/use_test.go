// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package use_test has a connector checked.
package use_test

import (
	"testing"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/connectortest"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

func TestUse(t *testing.T) {
	connectortest.Run(t, func(t *testing.T) connectortest.Cluster {
		cluster, err := fake.New().Connector(t.Context(), "edge", "c1")
		if err != nil {
			t.Fatal(err)
		}
		return connectortest.Cluster{Connector: cluster, ID: appcontext.ClusterID{Provider: "edge", Name: "c1"}}
	})
}
