// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// engine serves on a free port, and returns the arguments of its clients.
func (x *terminal) engine(command string, more ...string) (client []string, server *process) {
	x.t.Helper()
	address := daemon.FreeAddr(x.t).String()
	server = x.start(address, command,
		append([]string{"--listen", address, "--store", filepath.Join(x.t.TempDir(), "rsync.db")}, more...)...)
	return []string{"--server", address}, server
}

// anEngine follows the beginning of examples/rsync, with clusters in memory. The README uses other
// clusters.
func anEngine(x *terminal) {
	x.take("examples/rsync/manifests")
	at, engine := x.engine("go run ./examples/rsync serve --fake 2")
	x.run("", "go run ./examples/rsync create --cluster fake+cluster1 --cluster fake+cluster2 shop "+
		"examples/rsync/manifests/v1", at...)
	x.run("to create", "go run ./examples/rsync diff shop", at...)
	x.run("Instantiated", "go run ./examples/rsync instantiate shop", at...)
	x.start("Instantiated", "go run ./examples/rsync status --watch shop", at...).stop()
	x.run("to delete", "go run ./examples/rsync diff --terminate shop", at...)
	x.run("", "go run ./examples/rsync detach --cluster fake+cluster2 shop", at...)
	x.run("Terminated", "go run ./examples/rsync terminate shop", at...)
	engine.stop()

	x.swap = append(x.swap, "DIR", filepath.Join(x.dir, "examples/rsync/manifests/v1"))
	at, _ = x.engine("go run ./examples/rsync serve --fake 3")
	x.run("", "go run ./examples/rsync create --cluster fake+cluster1 shop DIR", at...)
	x.run("Instantiated", "go run ./examples/rsync instantiate shop", at...)
}

// anEngineWithClusters uses each kind of cluster alone: an API server, a git repository, and an
// agent behind a broker.
func anEngineWithClusters(x *terminal) {
	x.take("examples/rsync/manifests")
	config, err := os.ReadFile(x.cluster.Kubeconfig())
	if err != nil {
		x.t.Fatal(err)
	}
	x.file("clusters/c1.kubeconfig", string(config))
	x.broker()
	x.run("Initialized", "git init --bare fleet.git")
	apply := func(cluster string, client []string, there func()) {
		x.t.Helper()
		shop := words("create --cluster " + cluster + " shop examples/rsync/manifests/v1")
		for _, args := range [][]string{shop, {"instantiate", "shop"}, {}, {"terminate", "shop"}} {
			if len(args) == 0 {
				there()
				continue
			}
			cmd := x.command(x.t.Context(), "", append([]string{build(x.t, "./examples/rsync"), args[0]},
				append(client, args[1:]...)...)...)
			if out, err := cmd.CombinedOutput(); err != nil {
				x.t.Fatalf("%v: %v\n%s", args, err, out)
			}
		}
	}
	x.swap = append(x.swap, "DIR", "clusters")
	at, engine := x.engine("go run ./examples/rsync serve --kubeconfig-dir DIR")
	apply("kube+c1", at, func() { x.value("default", "rsync-example-web", "color", "blue") })
	engine.stop()

	git := *x
	git.swap = append([]string{"URL", "fleet.git"}, x.swap...)
	at, engine = git.engine("go run ./examples/rsync serve --git URL")
	apply("git+c2", at, func() {
		out, err := x.command(x.t.Context(), "", "git", "-C", "fleet.git", "log", "--all", "--name-only",
			"--format=").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "git+c2/default/ConfigMap/rsync-example-web.yaml") {
			x.t.Errorf("%v: %s", err, out)
		}
	})
	engine.stop()

	work := *x
	url := strings.NewReplacer(x.swap...).Replace("mqtt://broker:1883")
	work.swap = append([]string{"URL", url}, x.swap...)
	at, engine = work.engine("go run ./examples/rsync serve --broker URL")
	agent := x.begin("Started serving works", build(x.t, "./examples/agent"), "--broker", url, "--source", "rsync", "--cluster", "c3")
	apply("work+c3", at, func() { x.value("default", "rsync-example-web", "color", "blue") })
	agent.stop()
	engine.stop()
}

// aWebhook runs examples/interpreter-webhook as a server.
func aWebhook(x *terminal) {
	ca := certtest.New(x.t)
	ca.Issue(x.t, "webhook").Write(x.t, x.dir, "tls")
	address := daemon.FreeAddr(x.t).String()
	x.swap = append(x.swap, "DIR", x.dir)
	x.start("", "go run ./examples/interpreter-webhook serve --certs DIR", "--addr", address)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true}
	review := `{"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "request": {"uid": "1", "operation": "InterpretReplica",
		"kind": {"group": "workload.example.io", "version": "v1alpha1", "kind": "Workload"}, "name": "web", "namespace": "prod",
		"object": {"apiVersion": "workload.example.io/v1alpha1", "kind": "Workload", "metadata": {"name": "web", "namespace": "prod"}, "spec": {"replicas": 3}}}}`
	e2etest.Eventually(x.t, "the webhook answers", func() error {
		answer, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Post("https://"+address+
			"/interpret-workload", "application/json", strings.NewReader(review))
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err == nil && !strings.Contains(string(text), `"replicas":3`) {
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		return err
	})
	x.asSampled(address, ca.PEM)
}

// asSampled calls a webhook for a Workload, as the hub does with the webhook sample.
func (x *terminal) asSampled(address, ca string) {
	x.t.Helper()
	text, err := os.ReadFile(filepath.Join(x.tree, "examples/hub/samples/webhooks.yaml"))
	if err != nil {
		x.t.Fatal(err)
	}
	var sample v1alpha1.ResourceInterpreterWebhookConfiguration
	if err := yaml.UnmarshalStrict(text, &sample); err != nil {
		x.t.Fatal(err)
	}
	hook := &sample.Webhooks[0].ClientConfig
	hook.URL, hook.CABundle = new(strings.Replace(*hook.URL, "localhost:9443", address, 1)), []byte(ca)
	asks, err := caller.New(caller.Options{AllowedHosts: []string{"localhost", "127.0.0.1"}})
	if err != nil {
		x.t.Fatal(err)
	}
	defer asks.Close()
	if err := asks.SetConfigurations(
		caller.Configurations{Interpreting: []v1alpha1.ResourceInterpreterWebhookConfiguration{sample}}); err != nil {
		x.t.Fatal(err)
	}
	w := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(3)},
		"status": map[string]any{"readyReplicas": int64(3)}}}
	w.SetAPIVersion("workload.example.io/v1alpha1")
	w.SetKind("Workload")
	w.SetName("web")
	w.SetNamespace("prod")
	answer, err := asks.Interpret(x.t.Context(), interpreter.Query{Operation: v1alpha1.InterpreterOperationInterpretHealth,
		Object: w})
	if err != nil || !answer.Healthy {
		x.t.Errorf("%+v, %v", answer, err)
	}
}
