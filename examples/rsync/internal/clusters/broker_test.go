// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clusters_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/examples/rsync/internal/clusters"
	"github.com/spokewire/sdk-go/internal/testing/agenttest"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// TestBroker checks --broker with a broker that authenticates its clients. An agent applies the
// batch of a connector, and the connector of the next process finds it.
func TestBroker(t *testing.T) {
	ca, folder := certtest.New(t), t.TempDir()
	caFile := ca.Write(t, folder, "ca")
	own := func(name string) (certFile, keyFile string) { return ca.Issue(t, name).Write(t, folder, name) }
	certFile, keyFile := own("broker")
	broker := mosquitto.Start(t, mosquitto.Options{
		CertFile: certFile, KeyFile: keyFile, ClientCAFile: caFile,
		Users: map[string]string{"engine": "s3cr3t", "agent": "other"},
	})
	certFile, keyFile = own("agent")
	transport, err := mqtt.New(mqtt.Options{
		BrokerURL: broker.URL(), CAFile: caFile, CertFile: certFile, KeyFile: keyFile, Username: "agent", Password: "other",
	})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := work.NewAgent(transport, work.AgentOptions{ClusterName: "cluster1"})
	if err != nil {
		t.Fatal(err)
	}
	background(t, agent.Start)
	cluster := agenttest.NewCluster()
	background(t, func(ctx context.Context) error { return agenttest.Run(ctx, cluster, agent.Clientset(), "cluster1") })
	text := []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}}")
	batch := connector.Batch{AppContextID: "v1", App: "x", Resources: []appcontext.Resource{{
		Object: appcontext.Object{Kind: "ConfigMap", Namespace: "shop", Name: "a"}, Manifest: text,
	}}}
	certFile, keyFile = own("engine")
	password := filepath.Join(folder, "password")
	if err := os.WriteFile(password, []byte("s3cr3t\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	value := broker.URL() + "?source=example&works=" + filepath.Join(folder, "works.db") +
		"&user=engine&password-file=" + password + "&ca-file=" + caFile + "&cert-file=" + certFile + "&key-file=" + keyFile
	for _, process := range []string{"the first process", "the second"} {
		mux, err := clusters.Open(map[string]string{"broker": value})
		if err != nil {
			t.Fatal(err)
		}
		stop := background(t, mux.Start)
		c, err := mux.Connector(t.Context(), "work", "cluster1")
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			err := c.Apply(t.Context(), batch)
			var states []connector.State
			if err == nil {
				states, err = c.Get(t.Context(), batch)
			}
			if err == nil && states[0].Ready {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %+v, %v", process, states, err)
			}
		}
		stop()
	}
	if calls := cluster.Calls(); len(calls) != 1 || calls[0] != "create ConfigMap shop/a" {
		t.Errorf("the agent did %q", calls)
	}
}

func TestBrokerURL(t *testing.T) {
	for value, want := range map[string]string{
		"here": "must be a URL", "http://here": "scheme",
		"mqtt://here?sorce=me":              `unknown setting "sorce": must be one of ca-file`,
		"mqtt://here?works=/nowhere/at/all": "/nowhere/at/all",
		"mqtt://here?source=a&source=b":     "source is given 2 times", "mqtt://me:s3cr3t@here": "password",
		"mqtt://here?password=s3cr3t": `unknown setting "password"`,
	} {
		if _, err := clusters.Open(map[string]string{"broker": value}); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "--broker: ") || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v, want %q", value, err, want)
		}
	}
}

// background runs a function until stop is called or the test ends.
func background(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := run(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}
