// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/agenttest"
	"github.com/spokewire/sdk-go/internal/testing/background"
	"github.com/spokewire/sdk-go/internal/testing/gitserver"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

const manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}}\n"

func batch(provider string) connector.Batch {
	return connector.Batch{
		AppContextID: "v1", App: "x", Cluster: appcontext.ClusterID{Provider: provider, Name: "cluster1"},
		Resources: []appcontext.Resource{{
			Object: appcontext.Object{Kind: "ConfigMap", Namespace: "shop", Name: "a"}, Manifest: []byte(manifest),
		}},
	}
}

// notStarted is for clusters without a background.
func notStarted(func(context.Context) error) {}

// TestBroker checks that an agent applies the batch of a connector, and that the connector of the
// next process finds it.
func TestBroker(t *testing.T) {
	t.Chdir(t.TempDir())
	broker := mosquitto.Start(t, mosquitto.Options{})
	transport, err := mqtt.New(mqtt.Options{BrokerURL: broker.URL()})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := work.NewAgent(transport, work.AgentOptions{ClusterName: "cluster1"})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, agent.Start)
	cluster := agenttest.NewCluster()
	background.Run(t, func(ctx context.Context) error { return agenttest.Run(ctx, cluster, agent.Clientset(), "cluster1") })
	for _, process := range []string{"the first process", "the second"} {
		var stop func()
		clusters, err := openClusters(&options{fake: 1, broker: mqtt.Options{BrokerURL: broker.URL()}}, func(run func(context.Context) error) {
			stop = background.Run(t, run)
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := clusters.Connector(t.Context(), "work", "cluster1")
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			err := c.Apply(t.Context(), batch("work"))
			var states []connector.State
			if err == nil {
				states, err = c.Get(t.Context(), batch("work"))
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

// TestGit checks that --git may be a folder or a URL, and that the branch is created.
func TestGit(t *testing.T) {
	for reason, value := range map[string]func(*gitserver.Server) string{
		"a folder": func(s *gitserver.Server) string { return s.Path() },
		"a folder from here": func(s *gitserver.Server) string {
			t.Chdir(filepath.Dir(s.Path()))
			return filepath.Base(s.Path())
		},
		"a server": func(s *gitserver.Server) string { return s.URL() },
	} {
		server := gitserver.New(t, gitserver.Options{Empty: true})
		clusters, err := openClusters(&options{fake: 1, git: value(server)}, notStarted)
		if err != nil {
			t.Fatalf("%s: %v", reason, err)
		}
		c, err := clusters.Connector(t.Context(), "git", "cluster1")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Apply(t.Context(), batch("git")), c.Close()); err != nil {
			t.Fatalf("%s: %v", reason, err)
		}
		if got := server.Git("cat-file", "blob", "main:git+cluster1/shop/ConfigMap/a.yaml"); got != manifest {
			t.Errorf("%s: the file has %q", reason, got)
		}
	}
}

func TestClusters(t *testing.T) {
	clusters, err := openClusters(&options{fake: 2, kubeconfigDir: t.TempDir()}, notStarted)
	if err != nil {
		t.Fatal(err)
	}
	for cluster, want := range map[string]string{
		"fake+cluster2": "", "fake+cluster3": "must be cluster1 to cluster2", "fake+cluster0": "must be cluster1 to cluster2",
		"edge+cluster1": "must be one of fake, kube", "kube+c1": "c1.kubeconfig does not exist",
	} {
		provider, name, _ := strings.Cut(cluster, "+")
		c, err := clusters.Connector(t.Context(), provider, name)
		if err == nil {
			err = errors.Join(c.Probe(t.Context()), c.Close())
		}
		if want == "" && err != nil || want != "" && (!errors.Is(err, connector.ErrTerminal) ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", cluster, err, want)
		}
	}
}

// TestBadClusters checks that an invalid URL is reported at the start, without any secret in it.
func TestBadClusters(t *testing.T) {
	t.Chdir(t.TempDir())
	for want, o := range map[string]options{
		"scheme":        {git: "ftp://host/fleet.git"},
		"credentials":   {git: "https://bot:s3cr3t@host/fleet.git"},
		"--git: ":       {git: "https://host/fleet.git?token=s3cr3t"},
		"scheme: write": {broker: mqtt.Options{BrokerURL: "here"}},
		"password":      {broker: mqtt.Options{BrokerURL: "mqtt://me:s3cr3t@here"}},
	} {
		_, err := openClusters(&o, notStarted)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}
