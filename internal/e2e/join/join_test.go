// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

func TestMain(m *testing.M) { os.Exit(e2etest.Main(m)) }

// lifetime is the lifetime of agents' certificates. Renewals begin after two thirds of it.
const lifetime = 15 * time.Second

// site is a hub, and a cluster with an agent.
type site struct {
	t          *testing.T
	dir        string
	hub, agent *daemon.Daemon
	url        string // of the hub's API
	joins      string // the URL for joins
	core       kubernetes.Interface
}

// command runs a program to its end, and returns its output.
func (s *site) command(program string, args ...string) (string, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), e2etest.Patience)
	defer cancel()
	c := exec.CommandContext(ctx, e2etest.Program(s.t, program, true), args...)
	c.Dir = s.dir
	out, err := c.CombinedOutput()
	return string(out), err
}

func (s *site) must(program string, args ...string) string {
	s.t.Helper()
	out, err := s.command(program, args...)
	if err != nil {
		s.t.Fatalf("%s %v: %v: %s", program, args, err, out)
	}
	return out
}

// start runs a program until the end of the test.
func (s *site) start(program string, args ...string) *daemon.Daemon {
	s.t.Helper()
	d, err := daemon.Start(e2etest.Program(s.t, program, true), args...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		d.Stop()
		if log := d.Log(); s.t.Failed() || strings.Contains(log, "DATA RACE") {
			s.t.Errorf("%s %v:\n%s", program, args, log)
		}
	})
	return d
}

// find waits for a record of a log with a text, and returns the word after it.
func (s *site) find(d *daemon.Daemon, text string) (word string) {
	s.t.Helper()
	e2etest.Eventually(s.t, "log: "+text, func() error {
		_, after, _ := strings.Cut(d.Log(), text) // of whole lines
		words := strings.Fields(after)
		if len(words) == 0 {
			return errors.New("not logged")
		}
		word = words[0]
		return nil
	})
	return word
}

// join joins the cluster with a new token.
func (s *site) join() {
	s.t.Helper()
	created := s.must("hub", "token", "create", "--cluster", "c1", "--api", s.url, "--token-file", s.tokenFile())
	token, _, _ := strings.Cut(created, "\n")
	s.must("agent", "join", "--hub", s.joins, "--token", token, "--dir", "joined")
}

// tokenFile returns the file with the token of an editor.
func (s *site) tokenFile() string { return filepath.Join(s.dir, "store", "admin.token") }

// deploy changes the application, and returns its new value.
func (s *site) deploy(value string) string {
	s.t.Helper()
	for _, document := range [][2]string{
		{"clusters/c1", `{"apiVersion": "hub.spokewire.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "c1"}}`},
		{"applications/shop", `{"apiVersion": "hub.spokewire.io/v1alpha1", "kind": "Application",
			"metadata": {"name": "shop"}, "spec": {"parts": [{"name": "all", "manifests": [{"template":
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: shop, namespace: default}, data: {v: ` + value + `}}"}]}]}}`},
		{"placements/shop", `{"apiVersion": "hub.spokewire.io/v1alpha1", "kind": "Placement",
			"metadata": {"name": "shop"}, "spec": {"applications": ["shop"], "clusters": {"names": ["c1"]}}}`},
	} {
		path, body := document[0], document[1]
		e2etest.Eventually(s.t, "PUT "+path, func() error {
			r, err := http.NewRequest(http.MethodPut, s.url+"/api/v1/"+path, strings.NewReader(body))
			if err != nil {
				return err
			}
			if err := e2etest.Login(r, filepath.Dir(s.tokenFile())); err != nil {
				return err
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			defer func() { _ = answer.Body.Close() }()
			if text, _ := io.ReadAll(answer.Body); answer.StatusCode/100 != 2 {
				s.t.Fatalf("PUT %s: %s: %s", path, answer.Status, text)
			}
			return nil
		})
	}
	return value
}

// value returns the value on the cluster.
func (s *site) value() string {
	m, err := s.core.CoreV1().ConfigMaps("default").Get(s.t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return m.Data["v"]
}

func (s *site) has(value string) {
	s.t.Helper()
	e2etest.Eventually(s.t, "the application has the value "+value, func() error {
		if got := s.value(); got != value {
			return errors.New(got)
		}
		return nil
	})
}

// lists waits until hub get clusters prints texts.
func (s *site) lists(texts ...string) {
	s.t.Helper()
	e2etest.Eventually(s.t, fmt.Sprintf("hub get clusters prints %q", texts), func() error {
		out, err := s.command("hub", "get", "clusters", "--api", s.url)
		for _, text := range texts {
			if err == nil && !strings.Contains(out, text) {
				err = errors.New(out)
			}
		}
		return err
	})
}

// certificate returns the agent's certificate: its subject, and its end.
func (s *site) certificate() (subject string, end time.Time) {
	s.t.Helper()
	file := filepath.Join(s.dir, "joined", "client.pem")
	pair, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		s.t.Fatal(err)
	}
	return pair.Leaf.Subject.String(), pair.Leaf.NotAfter
}

func TestOverGRPC(t *testing.T) { story(t, nil) }

func TestOverMosquitto(t *testing.T) {
	story(t, func(dir string) *mosquitto.Broker { return startBroker(t, dir) })
}

// startBroker starts a broker with the configuration of examples/hub, and the certificates of hub
// certs.
func startBroker(t *testing.T, dir string) *mosquitto.Broker {
	t.Helper()
	content, err := os.ReadFile("../../../examples/hub/mosquitto/mosquitto.conf")
	if err != nil {
		t.Fatal(err)
	}
	certs := filepath.Join(dir, "certs") + "/"
	options := mosquitto.Options{CertFile: certs + "broker.crt", Config: func(port int) string {
		return strings.NewReplacer(
			"listener 8883", fmt.Sprintf("listener %d 127.0.0.1", port),
			"clients-ca.crt", "ca.crt", "/etc/mosquitto/certs/", certs,
			"\nuse_identity_as_username true", "", "\nacl_file /etc/mosquitto/acl", "",
			"#use_subject_as_username", "use_subject_as_username", "#plugin", "plugin",
			"/var/lib/mosquitto/", certs,
			"/usr/lib/x86_64-linux-gnu/mosquitto_dynamic_security.so", mosquitto.DynamicSecurity(t),
		).Replace(strings.ReplaceAll(string(content), "clients-ca.crt", "ca.crt"))
	}}
	return mosquitto.Start(t, options)
}

// story joins a cluster, renews its certificate several times, revokes it, and joins it again. Hub,
// agent and broker are started once.
func story(t *testing.T, broker func(dir string) *mosquitto.Broker) {
	e2etest.Prepare("hub", true)
	e2etest.Prepare("agent", true)
	cluster := kube.Start(t, kube.Options{CRDs: []string{"../../../appliedwork/v1alpha1"}})
	s := &site{t: t, dir: t.TempDir(), core: kubernetes.NewForConfigOrDie(cluster.Config())}
	s.must("hub", "certs", "--name", "127.0.0.1", "--broker-name", "127.0.0.1", "--dir", "certs")
	reach, ended := []string{"--grpc", "127.0.0.1:0"}, func() string { return s.agent.Log() }
	const endedByHub, endedByBroker = "the certificate of the cluster was revoked: join again", "by administrative action"
	want := endedByHub
	if broker != nil {
		b := broker(s.dir)
		reach, ended, want = []string{"--broker", b.URL()}, b.Log, endedByBroker
	}
	s.hub = s.start("hub", append(reach, "--certs", filepath.Join(s.dir, "certs"), "--join-listen", "127.0.0.1:0",
		"--cert-lifetime", lifetime.String(), "--listen", "127.0.0.1:0", "--store", filepath.Join(s.dir, "store"))...)
	s.url, s.joins = s.find(s.hub, `"Started serving" url=`), s.find(s.hub, `"Started serving joins" url=`)
	if broker == nil {
		reach = []string{"--hub", s.find(s.hub, `"Started serving events" address=`)}
	}
	s.join()
	_, firstEnd := s.certificate()
	s.agent = s.start("agent", append(reach, "--join", filepath.Join(s.dir, "joined"), "--source", "hub",
		"--kubeconfig", cluster.Kubeconfig(), "--store", filepath.Join(s.dir, "agent.db"))...)
	s.has(s.deploy("first"))

	// The agent renews, and stays connected after the end of the first certificates.
	e2etest.Eventually(t, "two renewals", func() error {
		if _, end := s.certificate(); end.Before(firstEnd.Add(lifetime)) {
			return fmt.Errorf("the certificate ends at %s, the first one at %s", end, firstEnd)
		}
		return nil
	})
	e2etest.Eventually(t, "the end of the first certificate", func() error {
		if time.Now().Before(firstEnd) {
			return errors.New("not yet")
		}
		return nil
	})
	s.has(s.deploy("second"))

	began := time.Now()
	s.must("hub", "revoke", "c1", "--api", s.url, "--token-file", s.tokenFile())
	t.Logf("hub revoke took %s", time.Since(began))
	e2etest.Eventually(t, "the end of the connection", func() error {
		if !strings.Contains(ended(), want) {
			return errors.New("not logged")
		}
		return nil
	})
	s.deploy("third")
	s.lists("Revoked   Unknown   Unknown", "its certificates are revoked: to admit it again, run hub token create --cluster c1")
	s.find(s.agent, `"Failed to renew the certificate of the agent, retrying" `+
		`err="the certificate of the cluster was revoked`)
	if got := s.value(); got != "second" {
		t.Errorf("a revoked agent received the value %q", got)
	}

	s.join() // without a restart of the agent
	if subject, _ := s.certificate(); subject != "CN=c1,OU=join-2" {
		t.Errorf("subject after the second join: %s", subject)
	}
	s.has("third")
	s.lists("Connected   Synced   Healthy", "")
	for _, d := range []*daemon.Daemon{s.hub, s.agent} {
		if log := d.Log(); strings.Contains(log, "PRIVATE KEY") || strings.Contains(log, "bookmark expired") {
			t.Errorf("a key or a repeated warning in the log:\n%s", log)
		}
	}
	if log := s.hub.Log(); !strings.Contains(log, `"Joined a cluster" cluster=c1 `) ||
		!strings.Contains(log, `"Revoked the certificates of a cluster" cluster=c1`) {
		t.Errorf("the log of the hub lacks the join or the revocation:\n%s", log)
	}
}
