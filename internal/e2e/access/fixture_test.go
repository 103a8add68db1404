// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// patience limits every wait for an expected event.
const patience = 45 * time.Second

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in %v", what, patience)
		}
	}
}

// house is a broker with the configuration of examples/hub.
type house struct {
	t      *testing.T
	folder string
	ca     *certtest.Authority
	broker *mosquitto.Broker
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, folder: t.TempDir(), ca: certtest.New(t)}
	h.ca.Write(t, h.folder, "clients-ca")
	h.ca.Revoke(t, h.folder, "clients-ca")
	certFile, _ := certtest.New(t).Issue(t, "broker").Write(t, h.folder, "broker")
	h.broker = mosquitto.Start(t, mosquitto.Options{CertFile: certFile, Config: func(port int) string {
		conf := h.example("mosquitto.conf")
		for old, replacement := range map[string]string{
			"listener 8883":         fmt.Sprintf("listener %d 127.0.0.1", port),
			"/etc/mosquitto/certs/": h.folder + "/",
			"/etc/mosquitto/acl":    h.write("acl", h.example("acl")),
			"#crlfile ":             "crlfile ",
		} {
			if !strings.Contains(conf, old) {
				t.Fatalf("mosquitto.conf has no %q", old)
			}
			conf = strings.ReplaceAll(conf, old, replacement)
		}
		return conf
	}})
	return h
}

// example returns a file of examples/hub/mosquitto.
func (h *house) example(name string) string {
	h.t.Helper()
	content, err := os.ReadFile("../../../examples/hub/mosquitto/" + name)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(content)
}

func (h *house) write(name, content string) string {
	h.t.Helper()
	path := filepath.Join(h.folder, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// as returns the options of a process with the certificate of a name. The broker's certificate is
// from another CA than those of clients.
func (h *house) as(name string) mqtt.Options {
	h.t.Helper()
	return h.with(h.ca.Issue(h.t, name))
}

// with is like as, for a certificate.
func (h *house) with(id *certtest.Identity) mqtt.Options {
	h.t.Helper()
	certFile, keyFile := id.Write(h.t, h.t.TempDir(), "client")
	return mqtt.Options{BrokerURL: h.broker.URL(), CertFile: certFile, KeyFile: keyFile,
		TLS: &tls.Config{InsecureSkipVerify: true}}
}

// logbook is the log of one process.
type logbook struct{ daemon.Log }

// has reports whether one line contains all texts.
func (l *logbook) has(texts ...string) bool {
	for line := range strings.Lines(l.String()) {
		missing := false
		for _, text := range texts {
			missing = missing || !strings.Contains(line, text)
		}
		if !missing {
			return true
		}
	}
	return false
}

// run runs a source or an agent until the end of the test.
func run(t *testing.T, start func(context.Context) error) *logbook {
	t.Helper()
	log := &logbook{}
	ctx, cancel := context.WithCancel(
		klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log)))))
	done := make(chan error, 1)
	go func() { done <- start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", log)
		}
	})
	return log
}

func transport(t *testing.T, o mqtt.Options) *mqtt.Transport {
	t.Helper()
	m, err := mqtt.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func source(t *testing.T, o mqtt.Options, id string) (*work.Source, *logbook) {
	t.Helper()
	s, err := work.NewSource(transport(t, o), work.SourceOptions{SourceID: id})
	if err != nil {
		t.Fatal(err)
	}
	return s, run(t, s.Start)
}

func agent(t *testing.T, o mqtt.Options, cluster string) (*work.Agent, *logbook) {
	t.Helper()
	a, err := work.NewAgent(transport(t, o), work.AgentOptions{ClusterName: cluster})
	if err != nil {
		t.Fatal(err)
	}
	return a, run(t, a.Start)
}

// create writes a work on the source.
func create(t *testing.T, s *work.Source, cluster, name string) {
	t.Helper()
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: cluster}}
	w.Spec.Workload.Manifests = []workv1.Manifest{{}}
	w.Spec.Workload.Manifests[0].Raw = []byte(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`)
	if _, err := s.Clientset().WorkV1().ManifestWorks(cluster).Create(t.Context(), w, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// apply waits until the agent has a work, and reports the work as applied.
func apply(t *testing.T, a *work.Agent, cluster, name string) {
	t.Helper()
	works := a.Clientset().WorkV1().ManifestWorks(cluster)
	eventually(t, "the agent of "+cluster+" has "+name, func() bool {
		w, err := works.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		w.Status.Conditions = []metav1.Condition{{
			Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "Done", LastTransitionTime: metav1.Now(),
			ObservedGeneration: w.Generation,
		}}
		_, err = works.UpdateStatus(t.Context(), w, metav1.UpdateOptions{})
		return err == nil
	})
}

// applied waits until the source shows that a work is applied.
func applied(t *testing.T, s *work.Source, cluster, name string) {
	t.Helper()
	eventually(t, "the source knows of "+name+" on "+cluster, func() bool {
		w, err := s.Clientset().WorkV1().ManifestWorks(cluster).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && len(w.Status.Conditions) > 0
	})
}

// raw is a client without restrictions of its own.
type raw struct {
	t      *testing.T
	client *paho.Client
	mu     sync.Mutex
	topics []string // of received messages, in order
}

// dial connects a raw client with the certificate of a name.
func (h *house) dial(name string) *raw {
	h.t.Helper()
	return h.dialAs(name, h.t.Name()+name)
}

func (h *house) dialAs(name, clientID string) *raw {
	h.t.Helper()
	o := h.as(name)
	certificate, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		h.t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", h.broker.Addr(),
		&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{certificate}})
	if err != nil {
		h.t.Fatal(err)
	}
	r := &raw{t: h.t}
	r.client = paho.NewClient(paho.ClientConfig{Conn: packets.NewThreadSafeConn(conn),
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){
			func(p paho.PublishReceived) (bool, error) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.topics = append(r.topics, p.Packet.Topic)
				return true, nil
			},
		}})
	if _, err := r.client.Connect(h.t.Context(), &paho.Connect{ClientID: clientID, KeepAlive: 30}); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	return r
}

// subscribe returns the reason code of the broker's response.
func (r *raw) subscribe(filter string) byte {
	r.t.Helper()
	ack, err := r.client.Subscribe(r.t.Context(),
		&paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}})
	if ack == nil {
		r.t.Fatal(err)
	}
	return ack.Reasons[0]
}

// publish returns the reason code of the broker's response.
func (r *raw) publish(topic string) byte {
	r.t.Helper()
	ack, err := r.client.Publish(r.t.Context(), &paho.Publish{Topic: topic, QoS: 1, Payload: []byte("{}")})
	if ack == nil {
		r.t.Fatal(err)
	}
	return ack.ReasonCode
}

// heard returns the topics of the received messages.
func (r *raw) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.topics...)
}

func (r *raw) close() {
	r.t.Helper()
	if err := r.client.Disconnect(&paho.Disconnect{}); err != nil {
		r.t.Error(err)
	}
}

// connectWith returns the reason code of the broker's response to a client with the certificate of
// a name. It returns 0xff if the broker closes the connection without a response.
func connectWith(h *house, name string) byte {
	h.t.Helper()
	o := h.as(name)
	certificate, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		h.t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", h.broker.Addr(),
		&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{certificate}})
	if err != nil {
		return 0xff
	}
	defer conn.Close()
	ack, err := paho.NewClient(paho.ClientConfig{Conn: conn}).Connect(h.t.Context(),
		&paho.Connect{ClientID: "nobody", CleanStart: true, KeepAlive: 30})
	if ack == nil || err == nil && ack.ReasonCode != 0 {
		return 0xff
	}
	return ack.ReasonCode
}
