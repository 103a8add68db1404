// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/connectortest"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	connectortest.Run(t, func(t *testing.T) connectortest.Cluster {
		clusters := fake.New()
		c := clusters.Cluster("edge", "c1")
		connection, err := clusters.Connector(t.Context(), "edge", "c1")
		if err != nil {
			t.Fatal(err)
		}
		return connectortest.Cluster{
			Connector: connection, ID: appcontext.ClusterID{Provider: "edge", Name: "c1"},
			Break: func() { c.SetMode(fake.ModeUnreachable) }, Mend: func() { c.SetMode(fake.ModeWorks) },
			Value: func(_ context.Context, name string) (string, error) {
				var have corev1.ConfigMap
				err := yaml.Unmarshal([]byte(c.Objects()[appcontext.Object{Kind: "ConfigMap", Namespace: "default", Name: name}]),
					&have)
				return have.Data["key"], err
			},
		}
	})
}
