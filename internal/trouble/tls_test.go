// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/mosquitto"
)

// TestTrouble07CertificatesReplaced: certificates are replaced on the disk while everything runs. The next handshake
// uses the new ones, and works go on. The matrix of what TLS refuses is in package mqtt.
func TestTrouble07CertificatesReplaced(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	ca := newAuthority(t)
	ca.write(t, folder, "ca")
	ca.issue(t, folder, "broker", "broker")
	ca.issue(t, folder, "hub", "hub-of-january")
	ca.issue(t, folder, "agent", "agent-of-january")
	in := func(name string) string { return filepath.Join(folder, name) }
	s := newScene(t, mosquitto.Options{
		CertFile: in("broker.crt"), KeyFile: in("broker.key"), ClientCAFile: in("ca.crt"),
		Lines: []string{"use_identity_as_username true"}, // so that the log tells who came
	})
	link := func(name string) mqtt.Options {
		return mqtt.Options{BrokerURL: "mqtts", CAFile: in("ca.crt"), CertFile: in(name + ".crt"), KeyFile: in(name + ".key")}
	}
	h := s.source(work.SourceOptions{}, link("hub"))
	a := s.agent(work.AgentOptions{}, link("agent"))
	a.apply()
	h.create("cluster1", "app", "1")
	shows(t, "the source", h.works("cluster1"), "app=1/1")

	ca.issue(t, folder, "hub", "hub-of-february")
	h.leave()
	h.set("cluster1", "app", "2")
	h.comeBack()
	shows(t, "the source with a new certificate", h.works("cluster1"), "app=2/2")

	// Everything is new: authority, broker and clients. Who is connected stays so until the broker restarts.
	next := newAuthority(t)
	next.write(t, folder, "ca")
	next.issue(t, folder, "broker", "broker")
	next.issue(t, folder, "hub", "hub-of-march")
	next.issue(t, folder, "agent", "agent-of-march")
	h.set("cluster1", "app", "3")
	shows(t, "the source before the broker's restart", h.works("cluster1"), "app=3/3")
	s.broker.Restart()
	h.set("cluster1", "app", "4")
	shows(t, "the source under a new authority", h.works("cluster1"), "app=4/4")

	for _, name := range []string{"hub-of-january", "agent-of-january", "hub-of-february", "hub-of-march", "agent-of-march"} {
		if !strings.Contains(s.broker.Log(), "u'"+name+"'") {
			t.Errorf("%s has not come to the broker", name)
		}
	}
}

// authority is a CA.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate, key}
}

func (a *authority) write(t *testing.T, folder, file string) {
	t.Helper()
	replace(t, filepath.Join(folder, file+".crt"), "CERTIFICATE", a.certificate.Raw)
}

// issue writes a certificate, for servers and clients on 127.0.0.1, and its key.
func (a *authority) issue(t *testing.T, folder, file, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Join(folder, file+".crt"), "CERTIFICATE", der)
	replace(t, filepath.Join(folder, file+".key"), "PRIVATE KEY", keyDER)
}

// replace puts a new file in the place of an old one at once, as certificate managers do.
func replace(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
