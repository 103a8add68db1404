// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package certtest makes certificates for tests of TLS on 127.0.0.1.
//
//	ca := certtest.New(t)
//	certFile, keyFile := ca.Issue(t, "broker").Write(t, folder, "broker")
//	caFile := ca.Write(t, folder, "ca")
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a CA. It is valid from one hour before New to one hour after.
type Authority struct {
	Certificate *x509.Certificate
	PEM         string
	key         *ecdsa.PrivateKey
}

// Identity is a certificate with its key.
type Identity struct {
	Certificate     tls.Certificate
	CertPEM, KeyPEM string
}

// New makes an authority with a new key.
func New(t testing.TB) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{certificate, encode("CERTIFICATE", der), key}
}

// Issue makes a certificate for clients, and for servers on 127.0.0.1 and other hosts. Its common
// name is name, and it is valid for one hour.
func (a *Authority) Issue(t testing.TB, name string, hosts ...string) *Identity {
	t.Helper()
	return a.IssueUntil(t, name, time.Now().Add(time.Hour), hosts...)
}

// IssueUntil makes a certificate like Issue. It is valid for the two hours before end.
func (a *Authority) IssueUntil(t testing.TB, name string, end time.Time, hosts ...string) *Identity {
	t.Helper()
	return a.issue(t, pkix.Name{CommonName: name}, end, hosts)
}

// IssueFor makes a certificate like Issue, with groups as organizations.
func (a *Authority) IssueFor(t testing.TB, name string, groups ...string) *Identity {
	t.Helper()
	return a.issue(t, pkix.Name{CommonName: name, Organization: groups}, time.Now().Add(time.Hour), nil)
}

// IssueUnit makes a certificate like Issue, with an organizational unit unless it is empty.
func (a *Authority) IssueUnit(t testing.TB, name, unit string) *Identity {
	t.Helper()
	subject := pkix.Name{CommonName: name}
	if unit != "" {
		subject.OrganizationalUnit = []string{unit}
	}
	return a.issue(t, subject, time.Now().Add(time.Hour), nil)
}

func (a *Authority) issue(t testing.TB, subject pkix.Name, end time.Time, hosts []string) *Identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject,
		NotBefore: end.Add(-2 * time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: hosts, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	id := &Identity{CertPEM: encode("CERTIFICATE", der), KeyPEM: encode("PRIVATE KEY", keyDER)}
	if id.Certificate, err = tls.X509KeyPair([]byte(id.CertPEM), []byte(id.KeyPEM)); err != nil {
		t.Fatal(err)
	}
	return id
}

// Pool returns a pool that trusts only the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Certificate)
	return pool
}

// Write writes the certificate to the file name.crt in a folder, and returns its path.
func (a *Authority) Write(t testing.TB, folder, name string) (file string) {
	t.Helper()
	file = filepath.Join(folder, name+".crt")
	replace(t, file, a.PEM)
	return file
}

// WriteKey writes the key of the authority to the file name.key in a folder, and returns its path.
func (a *Authority) WriteKey(t testing.TB, folder, name string) (file string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(folder, name+".key")
	replace(t, file, encode("PRIVATE KEY", der))
	return file
}

// Revoke writes a certificate revocation list to the file name.crl in a folder. The list has
// exactly the revoked identities.
func (a *Authority) Revoke(t testing.TB, folder, name string, revoked ...*Identity) {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(time.Now().UnixNano()), ThisUpdate: time.Now().Add(-time.Hour),
		NextUpdate: time.Now().Add(time.Hour)}
	for _, id := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{
			SerialNumber: id.Certificate.Leaf.SerialNumber, RevocationTime: time.Now().Add(-time.Minute),
		})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.Certificate, a.key)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Join(folder, name+".crl"), encode("X509 CRL", der))
}

// Write writes the certificate and its key to the files name.crt and name.key in a folder, and
// returns their paths.
func (id *Identity) Write(t testing.TB, folder, name string) (certFile, keyFile string) {
	t.Helper()
	certFile, keyFile = filepath.Join(folder, name+".crt"), filepath.Join(folder, name+".key")
	replace(t, certFile, id.CertPEM)
	replace(t, keyFile, id.KeyPEM)
	return certFile, keyFile
}

// replace replaces a file atomically, as certificate managers do.
func replace(t testing.TB, file, content string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
