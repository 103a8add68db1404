// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// generation is one set of everything that expires: certificates and a password.
type generation struct {
	ca             *certtest.Authority
	broker, client *certtest.Identity
	password       string
}

func newGeneration(t *testing.T, password string) generation {
	t.Helper()
	ca := certtest.New(t)
	return generation{ca, ca.Issue(t, "broker"), ca.Issue(t, "client"), password}
}

// rotation is a Mosquitto that requires a certificate and a password, and the files of broker and
// clients.
type rotation struct {
	t       *testing.T
	brokers string // folder of the broker's files
	clients string // folder of the clients' files
	broker  *mosquitto.Broker
	options mqtt.Options
}

func newRotation(t *testing.T, g generation) *rotation {
	t.Helper()
	r := &rotation{t: t, brokers: t.TempDir(), clients: t.TempDir()}
	r.installBroker(g)
	r.installClient(g)
	in := func(folder, name string) string { return filepath.Join(folder, name) }
	r.broker = mosquitto.Start(t, mosquitto.Options{
		CertFile: in(r.brokers, "tls.crt"), KeyFile: in(r.brokers, "tls.key"), ClientCAFile: in(r.brokers, "ca.crt"),
		Lines: []string{"allow_anonymous false", "password_file " + in(r.brokers, "passwords")},
	})
	r.options = mqtt.Options{BrokerURL: r.broker.URL(), CAFile: in(r.clients, "ca.crt"),
		CertFile: in(r.clients, "tls.crt"),
		KeyFile:  in(r.clients, "tls.key"), Username: "user", PasswordFile: in(r.clients, "password")}
	return r
}

func (r *rotation) installBroker(g generation) {
	r.t.Helper()
	g.ca.Write(r.t, r.brokers, "ca")
	g.broker.Write(r.t, r.brokers, "tls")
	passwordsOf(r.t, filepath.Join(r.brokers, "passwords"), "user", g.password)
}

func (r *rotation) installClient(g generation) {
	r.t.Helper()
	g.ca.Write(r.t, r.clients, "ca")
	g.client.Write(r.t, r.clients, "tls")
	r.write("password", g.password+"\n")
}

// write replaces a file of the clients.
func (r *rotation) write(name, content string) {
	r.t.Helper()
	writeFile(r.t, filepath.Join(r.clients, name), content)
}

// TestRotation checks that an open connection is not affected by changes of its files. The next
// connection uses the current files, and succeeds as soon as they are complete.
func TestRotation(t *testing.T) {
	first, second := newGeneration(t, "pa55-0ne"), newGeneration(t, "pa55-tw0")
	r := newRotation(t, first)
	j := &journal{}
	j.secret("pa55-0ne", "pa55-tw0")
	t.Cleanup(func() { j.verify(t) })
	l := startLoop(t, j, r.options, clocktesting.NewFakeClock(time.Now()))
	if err := l.attempts.next(t); err != nil {
		t.Fatal(err)
	}

	r.installBroker(second)
	for name, content := range map[string]string{"ca.crt": "", "tls.crt": "", "tls.key": "", "password": ""} {
		r.write(name, content)
	}
	l.roundTrip() // on the open connection
	r.broker.Kill()
	r.broker.Restart()

	// Each step writes one more file and checks the error about the next missing file.
	bundle := first.ca.PEM + second.ca.PEM
	for _, step := range []struct {
		reason, name, content, want string
		permanent                   bool
	}{
		{"nothing is there yet", "", "", "PasswordFile " + r.options.PasswordFile + " is empty", false},
		{"the password is", "password", "pa55-tw0\n", "contains no certificate in PEM", false},
		{"half a CA", "ca.crt", bundle[:len(bundle)-100], "ends within a certificate: is it being replaced?", false},
		{"a CA that is not the broker's any more", "ca.crt", first.ca.PEM, "tls.crt", false},
		{"old and new CA", "ca.crt", bundle, "failed to find any PEM data in certificate input", false},
		{"half a certificate", "tls.crt", second.client.CertPEM[:300], "failed to find any PEM data in certificate input",
			false},
		{"the certificate without its key", "tls.crt", second.client.CertPEM, "failed to find any PEM data in key input",
			false},
		{"the key of the one before", "tls.key", first.client.KeyPEM, "private key does not match public key", false},
		{"the pair of the one before", "tls.crt", first.client.CertPEM, "check CertFile",
			true},
		{"the new key too early", "tls.key", second.client.KeyPEM, "private key does not match public key", false},
		{"all but the right password", "password", "pa55-0ne", "private key does not match public key", false},
		{"the certificate", "tls.crt", second.client.CertPEM, "not authorized (CONNACK 0x87)", true},
		{"everything", "password", "pa55-tw0", "", false},
	} {
		if step.name != "" {
			r.write(step.name, step.content)
		}
		l.retry()
		err := l.attempts.next(t)
		if step.want == "" {
			if err != nil {
				t.Fatalf("%s: %v", step.reason, err)
			}
			break
		}
		wantError(t, err, step.want)
		var permanent *cloudevents.PermanentError
		if errors.As(err, &permanent) != step.permanent {
			t.Errorf("%s: %v: a PermanentError is %v, want %v", step.reason, err, !step.permanent, step.permanent)
		}
	}
	l.roundTrip()
}

// TestRotationOfSourceAndAgent checks that an agent still receives works after the broker was
// restarted on the same port. The broker has other certificates and no stored state.
func TestRotationOfSourceAndAgent(t *testing.T) {
	first, second := newGeneration(t, "pa55-0ne"), newGeneration(t, "pa55-tw0")
	r := newRotation(t, first)
	s := startStack(t, r.options, r.options)
	s.create("cluster1", "before", "")
	s.arrives("before")
	r.broker.Kill()
	r.installBroker(second)
	r.installClient(second)
	r.broker.Restart()
	s.create("cluster1", "after", "")
	s.arrives("after")
}
