// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
)

// sessions run the commands of documents in their order. Only addresses and arguments that shorten
// the run are added.
var sessions = map[string]func(x *terminal){
	"a hub and an agent":      hubAndAgent,
	"a hub without a broker":  hubWithoutBroker,
	"an agent of an API hub":  agentOfAnAPIServer,
	"a join":                  aJoin,
	"a policy":                aPolicy,
	"a tutorial":              aTutorial,
	"a work of a folder":      aWorkOfAFolder,
	"commands of a hub":       commandsOfAHub,
	"an engine":               anEngine,
	"an engine with clusters": anEngineWithClusters,
	"a webhook":               aWebhook,
	"two clusters":            twoClusters,
	"two replicas of a hub":   twoReplicas,
}

// broker starts the broker that the documentation of examples/rsync uses.
func (x *terminal) broker() {
	x.t.Helper()
	port := fmt.Sprint(daemon.FreeAddr(x.t).Port())
	x.swap = append(x.swap, "//broker:1883", "//localhost:"+port, "1883", port)
	x.start("running", "mosquitto -p 1883")
}

// value waits until a ConfigMap has a value.
func (x *terminal) value(namespace, name, key, want string) {
	x.t.Helper()
	e2etest.Eventually(x.t, fmt.Sprintf("%s/%s has %s: %s", namespace, name, key, want), func() error {
		out, err := x.kubectl("", "get", "configmap", "-n", namespace, name, "-o", "jsonpath={.data."+key+"}")
		if err == nil && out != want {
			err = fmt.Errorf("it is %q", out)
		}
		return err
	})
}

// clear deletes leftovers of the agents of other sessions: an agent adopts no existing objects.
func (x *terminal) clear() {
	x.t.Helper()
	_, _ = x.kubectl("", "delete", "appliedworks", "--all") // the kind may not exist yet
	if _, err := x.kubectl("", "delete", "namespace", "shop", "--ignore-not-found"); err != nil {
		x.t.Fatal(err)
	}
}

// hubAndAgent follows the beginning of examples/hub, and connects the agent through a broker.
func hubAndAgent(x *terminal) {
	x.clear()
	x.broker()
	x.take("examples/hub/samples")
	port := fmt.Sprint(daemon.FreeAddr(x.t).Port())
	x.swap = append(x.swap, ":8080", ":"+port)
	hub := x.start("Started serving", "go run ./examples/hub --broker mqtt://localhost:1883 --dir examples/hub/samples",
		"--listen", "127.0.0.1:"+port, "--patience", "1s")
	agent := x.start("Started serving works",
		"go run ./examples/agent --broker mqtt://localhost:1883 --cluster cluster1 --source hub --store cluster1.db")
	x.value("shop", "web", "greeting", "Welcome to the shop on cluster1")

	sample := "examples/hub/samples/shop.yaml"
	text, err := os.ReadFile(filepath.Join(x.tree, sample))
	if err != nil {
		x.t.Fatal(err)
	}
	x.file(sample, strings.Replace(string(text), "Welcome", "Hello", 1))
	x.value("shop", "web", "greeting", "Hello to the shop on cluster1")

	agent.stop()
	x.start("Started serving works",
		"go run ./examples/agent --cluster cluster1 --broker mqtt://broker:1883 --source hub --store works.db")
	api := []string{"--api", "http://127.0.0.1:" + port}
	x.run("rolled back to revision", "go run ./examples/hub rollback shop", api...)
	x.value("shop", "web", "greeting", "Welcome to the shop on cluster1")
	if _, err := os.Stat(filepath.Join(x.dir, "works.db")); err != nil {
		x.t.Error(err)
	}

	hub.stop()
	url := strings.NewReplacer(x.swap...).Replace("mqtt://localhost:1883")
	x.begin("Kept applications unchanged", build(x.t, "./examples/hub"), "--broker", url, "--leave-dir", "--listen",
		"127.0.0.1:"+port, "--patience", "1s")
	x.value("shop", "web", "greeting", "Welcome to the shop on cluster1")
	x.file("cluster.yaml", "apiVersion: hub.spokewire.io/v1alpha1\nkind: Cluster\nmetadata: {name: cluster1}\n")
	apply := append([]string{build(x.t, "./examples/hub"), "apply", "-f", "cluster.yaml"}, api...)
	if out, err := x.command(x.t.Context(), "", apply...).CombinedOutput(); err != nil {
		x.t.Errorf("%v: %s", err, out)
	}
	x.run("complete", "go run ./examples/hub complete", api...)
	e2etest.Eventually(x.t, "the shop is taken away", func() error {
		out, err := x.kubectl("", "get", "configmap", "-n", "shop", "--ignore-not-found", "web")
		if err == nil && out != "" {
			err = errors.New(out)
		}
		return err
	})
}

// sql matches the statements of a page.
var sql = regexp.MustCompile("(?s)```sql\n(.*?)```")

// database starts PostgreSQL with the role and the database that a page creates.
func (x *terminal) database(page, name string) {
	x.t.Helper()
	server := postgres.Start(x.t, postgres.Options{})
	for statement := range strings.Lines(sql.FindStringSubmatch(read(x.t, page))[1]) {
		server.Exec(x.t, "postgres", statement)
	}
	host, port, _ := strings.Cut(server.Addr(), ":")
	x.file("pgpass", host+":"+port+":"+name+":"+name+":PASSWORD\n") // the session has no shell with PGPASSWORD
	x.swap = append(x.swap, "@localhost/"+name,
		"@"+server.Addr()+"/"+name+"?passfile="+filepath.Join(x.dir, "pgpass"))
}

// twoReplicas follows the part of examples/hub/README.md about replicas. Then the leader ends, and
// the other replica takes over.
func twoReplicas(x *terminal) {
	x.database("examples/hub/README.md", "hub")
	x.broker()
	x.swap = append(x.swap,
		":8080", ":"+fmt.Sprint(daemon.FreeAddr(x.t).Port()), ":8081", ":"+fmt.Sprint(daemon.FreeAddr(x.t).Port()))
	const replica = "go run ./examples/hub --broker mqtt://localhost:1883 --store postgres://hub@localhost/hub "
	first := x.start("Became the leader", replica+"--listen 127.0.0.1:8080")
	second := x.start("Detected the leader", replica+"--listen 127.0.0.1:8081")
	e2etest.Eventually(x.t, "the follower answers", func() error {
		_, err := x.try("", "go run ./examples/hub status --api http://localhost:8081")
		return err
	})
	first.stop()
	second.logs("Became the leader")
	e2etest.Eventually(x.t, "the new leader answers", func() error {
		_, err := x.try("", "go run ./examples/hub status --api http://localhost:8081")
		return err
	})
}

// hubWithoutBroker follows examples/hub with a hub that serves its agents itself, first without
// certificates and then with.
func hubWithoutBroker(x *terminal) {
	x.clear()
	x.take("examples/hub/samples")
	page, agents := fmt.Sprint(daemon.FreeAddr(x.t).Port()), fmt.Sprint(daemon.FreeAddr(x.t).Port())
	x.swap = append(x.swap, "hub.example.com", "localhost", ":8080", ":"+page, ":8443", ":"+agents, "TOKEN", "secret")

	hub := x.start("Started serving", "go run ./examples/hub --grpc localhost:8443 --dir examples/hub/samples",
		"--listen", "127.0.0.1:"+page, "--patience", "1s")
	agent := x.start("Started serving works", "go run ./examples/agent --hub localhost:8443 --hub-insecure "+
		"--cluster cluster1 --source hub --store cluster1.db")
	x.value("shop", "web", "greeting", "Welcome to the shop on cluster1")
	agent.stop()
	hub.stop()

	const certificate = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days "
	x.run("", certificate+"3650 -subj /CN=hub-ca -keyout ca.key -out ca.crt")
	x.run("", certificate+"365 -subj /CN=hub -addext subjectAltName=DNS:hub.example.com -addext "+
		"extendedKeyUsage=serverAuth -addext basicConstraints=critical,CA:FALSE -CA ca.crt -CAkey ca.key "+
		"-keyout hub.key -out hub.crt")
	x.run("", certificate+"365 -subj /CN=cluster1 -addext extendedKeyUsage=clientAuth -addext "+
		"basicConstraints=critical,CA:FALSE -CA ca.crt -CAkey ca.key -keyout cluster1.key -out cluster1.crt")
	hub = x.start("Started serving", "go run ./examples/hub --grpc :8443 --grpc-cert hub.crt --grpc-key hub.key "+
		"--grpc-client-ca ca.crt --dir examples/hub/samples", "--listen", "127.0.0.1:"+page, "--patience", "1s")
	x.start("Started serving works", "go run ./examples/agent --hub hub.example.com:8443 --hub-ca ca.crt --hub-cert "+
		"cluster1.crt --hub-key cluster1.key --cluster cluster1 --source hub --store cluster1.db")
	sample := "examples/hub/samples/shop.yaml"
	text, err := os.ReadFile(filepath.Join(x.tree, sample))
	if err != nil {
		x.t.Fatal(err)
	}
	x.file(sample, strings.Replace(string(text), "Welcome", "Hello", 1))
	x.value("shop", "web", "greeting", "Hello to the shop on cluster1")

	hub.stop()
	x.file("tokens.csv", `secret,ann,1,"hub-editors"`+"\n")
	x.start("Started serving", "go run ./examples/hub --grpc :8443 --grpc-cert hub.crt --grpc-key hub.key "+
		"--grpc-client-ca ca.crt --listen :8080 --tls-cert hub.crt --tls-key hub.key --token-auth-file tokens.csv "+
		"--allowed-host hub.example.com --dir examples/hub/samples", "--patience", "1s")
	x.file("token", "secret\n")
	x.run("shop", "go run ./examples/hub status --api https://hub.example.com:8080 --api-ca ca.crt --token-file token")
	x.run(`"name":"shop"`, "curl --cacert ca.crt --oauth2-bearer TOKEN https://hub.example.com:8080/api/v1/status",
		"--fail-with-body")
}

// aJoin follows the part of examples/hub/README.md about joins over gRPC.
func aJoin(x *terminal) {
	x.clear()
	x.take("examples/hub/samples")
	var ports [3]string
	for i := range ports {
		ports[i] = fmt.Sprint(daemon.FreeAddr(x.t).Port())
	}
	api := []string{"--api", "http://127.0.0.1:" + ports[0]}
	x.swap = append(x.swap, "hub.example.com", "localhost", ":8443", ":"+ports[1], ":8444", ":"+ports[2])
	x.run("created  hub-certs/ca.crt", "go run ./examples/hub certs --name hub.example.com --dir hub-certs")
	x.start("Started serving", "go run ./examples/hub --grpc :8443 --certs hub-certs --join-listen :8444 "+
		"--join-url https://hub.example.com:8444 --dir examples/hub/samples", "--listen", "127.0.0.1:"+ports[0],
		"--patience", "1s")
	out, err := x.try("", "go run ./examples/hub token create --cluster cluster1", api...)
	token, rest, _ := strings.Cut(out, "\n")
	if err != nil || !strings.Contains(rest, "agent join --hub https://localhost:"+ports[2]+" --token "+token) {
		x.t.Fatalf("%v: %s", err, out)
	}
	x.swap = append(x.swap, "TOKEN", token)
	x.run("joined    as cluster1", "go run ./examples/agent join --hub https://hub.example.com:8444 --token TOKEN "+
		"--dir cluster1-certs")
	agent := x.start("Started serving works", "go run ./examples/agent --hub hub.example.com:8443 --join cluster1-certs "+
		"--source hub --store cluster1.db")
	x.value("shop", "web", "greeting", "Welcome to the shop on cluster1")
	x.run("cluster/cluster1 revoked", "go run ./examples/hub revoke cluster1", api...)
	e2etest.Eventually(x.t, "the agent reports the revocation", func() error {
		if log := agent.log.Last(16 << 10); !strings.Contains(log, "revoked: join again with a new token") {
			return errors.New(log)
		}
		return nil
	})
}

// agentOfAnAPIServer receives works from a hub with an API server, which here is the cluster
// itself.
func agentOfAnAPIServer(x *terminal) {
	x.clear()
	config, err := os.ReadFile(x.cluster.Kubeconfig())
	if err != nil {
		x.t.Fatal(err)
	}
	x.file("hub.kubeconfig", string(config))
	x.take("examples/agent/works")
	x.start("Started serving works",
		"go run ./examples/agent --cluster cluster1 --hub-kubeconfig hub.kubeconfig")
	x.run("created", "kubectl --kubeconfig hub.kubeconfig create namespace cluster1")
	x.run("created", "kubectl --kubeconfig hub.kubeconfig apply -f examples/agent/works")
	for name, want := range map[string]string{
		"conditions-and-feedback": "True", "delete-options": "True", "executor": "False", "job": "True", "namespace": "True",
		"update-strategies": "True",
	} {
		e2etest.Eventually(x.t, name+" is Applied="+want, func() error {
			out, err := x.kubectl("", "get", "manifestwork", "-n", "cluster1", name, "-o",
				"jsonpath={.status.conditions[?(@.type=='Applied')]}")
			if err == nil && (!strings.Contains(out, fmt.Sprintf(`"status":%q`, want)) || name == "executor" &&
				!strings.Contains(out, "denied\\\" is forbidden")) {
				err = errors.New(out)
			}
			return err
		})
	}
	x.run("system:serviceaccount:shop:deployer",
		"kubectl --kubeconfig hub.kubeconfig get manifestwork executor -n cluster1 -o yaml")
	for _, name := range []string{"goes", "allowed", "updated", "created-once"} {
		x.value("shop", name, "value", "1")
	}
	x.run("deleted", "kubectl --kubeconfig hub.kubeconfig delete -f examples/agent/works") // waits
	for _, name := range []string{"goes", "allowed", "updated", "created-once"} {
		if _, err := x.kubectl("", "get", "configmap", "-n", "shop", name); err == nil {
			x.t.Errorf("%s is still there", name)
		}
	}
	x.value("shop", "stays", "value", "1")
}

// aPolicy follows the beginning of examples/policy-watcher.
func aPolicy(x *terminal) {
	metrics := daemon.FreeAddr(x.t).String()
	x.swap = append(x.swap, "~/.kube/config", x.cluster.Kubeconfig())
	watcher := x.start("Rendering policies on", "go run ./examples/policy-watcher --kubeconfig ~/.kube/config",
		"--metrics", metrics)
	x.run("created", "kubectl create secret generic database --from-literal=user=alice")
	manifest := heredoc(x, "examples/policy-watcher/main.go")
	e2etest.Eventually(x.t, "the policy is taken", func() error { // after its CRD exists
		_, err := x.try(manifest, "kubectl apply -f - <<END")
		return err
	})
	status := func(want string) {
		x.t.Helper()
		e2etest.Eventually(x.t, "the policy's status", func() error {
			out, err := x.try("", "kubectl get policy greeting -o jsonpath='{.status}'")
			if err == nil && !strings.Contains(out, want) {
				err = fmt.Errorf("it is %s, without %s", out, want)
			}
			return err
		})
	}
	status(`configmaps \"plans\" not found`)
	x.run("created", "kubectl create configmap plans --from-literal=default=gold")
	status("Hello alice, your plan is gold.")
	response, err := http.Get("http://" + metrics + "/metrics")
	if err != nil {
		x.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		x.t.Fatal(err)
	}
	wantOutput(x.t, string(text), "\nhub_templates_active_watch_count 2\n")
	watcher.stop()
	x.start("Rendering policies on", "go run ./examples/policy-watcher", "--metrics", metrics).stop()
}

// heredoc returns the text of a document between <<END and END.
func heredoc(x *terminal, document string) string {
	x.t.Helper()
	text, err := os.ReadFile(filepath.Join(x.tree, document))
	if err != nil {
		x.t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "<<END\n")
	body, _, ended := strings.Cut(rest, "//\tEND\n")
	if !ok || !ended {
		x.t.Fatalf("%s has no <<END", document)
	}
	return strings.ReplaceAll(body, "//\t", "")
}

// aWorkOfAFolder runs examples/applied-work, with its own manifests and with a folder.
func aWorkOfAFolder(x *terminal) {
	x.run("all objects are deleted", "go run ./examples/applied-work")
	x.swap = append(x.swap, "DIR", filepath.Join(x.tree, "examples/applied-work/manifests/v1"))
	p := x.start("applied:", "go run ./examples/applied-work --manifests DIR")
	p.stop()
	wantOutput(x.t, p.log.Last(16<<10), "all objects are deleted")
}
