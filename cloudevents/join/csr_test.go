// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/join"
)

// send sends a request for a certificate, and returns the status and the answer.
func (s *site) send(client *tls.Certificate, token join.Token, body []byte) (code int, answer map[string]string) {
	s.t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	cert, _, err := s.ca.PEM()
	if err != nil || !config.RootCAs.AppendCertsFromPEM(cert) {
		s.t.Fatal(err)
	}
	if client != nil {
		config.Certificates = []tls.Certificate{*client}
	}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.url+"/join/v1/certificates",
		bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if token != (join.Token{}) {
		r.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	response, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: config,
		DisableKeepAlives: true}}).Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil || json.Unmarshal(content, &answer) != nil {
		s.t.Fatalf("%v: %s", err, content)
	}
	return response.StatusCode, answer
}

func request(t *testing.T, template x509.CertificateRequest, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func ecKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestRequests(t *testing.T) {
	s := newSite(t, nil)
	token := s.token(join.TokenOptions{Cluster: "c1", Uses: 1000})
	p256 := ecKey(t, elliptic.P256())
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	named := x509.CertificateRequest{Subject: pkix.Name{CommonName: "c1"}}
	block, _ := pem.Decode(request(t, named, p256))
	block.Bytes[len(block.Bytes)-1] ^= 1
	damaged := pem.EncodeToMemory(block)
	tests := []struct {
		name string
		body []byte
		want string // of the error; empty for success
	}{
		{"P-256", request(t, named, p256), ""},
		{"P-384", request(t, named, ecKey(t, elliptic.P384())), ""},
		{"Ed25519", request(t, named, edwards), ""},
		{"RSA", request(t, named, rsaKey), ""},
		{"no name", request(t, x509.CertificateRequest{}, p256), ""},
		{"P-224", request(t, named, ecKey(t, elliptic.P224())), "the key must be"},
		{"other cluster", request(t, x509.CertificateRequest{Subject: pkix.Name{CommonName: "c2"}}, p256), `cluster "c2"`},
		{"group", request(t, x509.CertificateRequest{Subject: pkix.Name{CommonName: "c1",
			Organization: []string{"system:masters"}}},
			p256), "may have only a common name"},
		{"unit", request(t, x509.CertificateRequest{Subject: pkix.Name{OrganizationalUnit: []string{"join-9"}}},
			p256),
			"may have only a common name"},
		{"DNS", request(t, x509.CertificateRequest{DNSNames: []string{"hub.example.com"}}, p256),
			"may have only a common name"},
		{"IP", request(t, x509.CertificateRequest{IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}}, p256),
			"may have only"},
		{"URI", request(t, x509.CertificateRequest{URIs: []*url.URL{{Scheme: "spiffe", Host: "x"}}}, p256),
			"may have only"},
		{"extension", request(t, x509.CertificateRequest{ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19},
			Value: []byte{
				0x30, 0x03, 0x01, 0x01, 0xff}}}}, p256), "may have only"},
		{"damaged", damaged, "certificate signing request"},
		{"two", append(request(t, named, p256), request(t, named, p256)...), "must be one CERTIFICATE REQUEST"},
		{"empty", nil, "must be one CERTIFICATE REQUEST"},
		{"certificate", []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
			"must be one CERTIFICATE REQUEST"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			code, answer := s.send(nil, token, test.body)
			if test.want != "" {
				if code != http.StatusBadRequest || !strings.Contains(answer["error"], test.want) ||
					answer["certificate"] != "" {
					t.Errorf("%d %v, want an error with %q", code, answer, test.want)
				}
				return
			}
			block, _ := pem.Decode([]byte(answer["certificate"]))
			if code != http.StatusOK || block == nil {
				t.Fatalf("%d %v", code, answer)
			}
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil || cert.Subject.String() != "CN=c1,OU=join-1" || cert.IsCA {
				t.Errorf("%v, %v", cert.Subject, err)
			}
		})
	}
}

// TestRenewalsRefused checks the certificates that a renewal does not accept.
func TestRenewalsRefused(t *testing.T) {
	s := newSite(t, func(o *join.ServerOptions) { o.Reserved = []string{"hub"} })
	dir, _ := s.join("c1")
	files := join.FilesIn(dir)
	joined, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	client := func(name string) *tls.Certificate {
		cert, key, err := s.ca.Client(name)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return &pair
	}
	key := ecKey(t, elliptic.P256())
	for _, test := range []struct {
		name   string
		client *tls.Certificate
		cn     string
		code   int
		want   string
	}{
		{"own", &joined, "c1", http.StatusOK, ""},
		{"other cluster", &joined, "c2", http.StatusBadRequest, "may join only as"},
		{"not of a join", client("c1"), "c1", http.StatusBadRequest, "does not come from a join"},
		{"hub", client("hub"), "hub", http.StatusBadRequest, "does not come from a join"},
		{"none", nil, "c1", http.StatusBadRequest, "neither a token nor"},
	} {
		body := request(t, x509.CertificateRequest{Subject: pkix.Name{CommonName: test.cn}}, key)
		if code, answer := s.send(test.client, join.Token{}, body); code != test.code ||
			!strings.Contains(answer["error"], test.want) {
			t.Errorf("%s: %d %v, want %d and %q", test.name, code, answer, test.code, test.want)
		}
	}
}
