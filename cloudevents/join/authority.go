// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	serverLife    = 365 * 24 * time.Hour
	// clockSkew is the most that clocks may differ.
	clockSkew = 5 * time.Minute
	// incarnation is the prefix of the organizational unit with the number of an incarnation.
	incarnation = "join-"
)

// Authority is a CA.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// CreateAuthority makes a CA with a new key, for ten years.
func CreateAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	a := &Authority{cert: template, key: key}
	a.cert, err = a.sign(template, key.Public(), authorityLife, time.Now())
	return a, err
}

// LoadAuthority reads a CA from PEM files of its certificate and its key. Errors contain the file.
func LoadAuthority(certFile, keyFile string) (*Authority, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", certFile, keyFile, err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s: not a certificate of a CA", certFile)
	}
	return &Authority{cert: pair.Leaf, key: key}, nil
}

// PEM returns the certificate of the CA, and its private key.
func (a *Authority) PEM() (cert, key []byte, err error) {
	key, err = keyPEM(a.key)
	return certPEM(a.cert), key, err
}

// Server makes a server's certificate for names and IP addresses, with a new key, for a year.
func (a *Authority) Server(names ...string) (cert, key []byte, err error) {
	template := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	if len(names) > 0 {
		template.Subject.CommonName = names[0]
	}
	return a.issue(template, serverLife)
}

// Client makes a client's certificate with a common name and a new key, for a year. It is for the
// hub at a broker; agents join.
func (a *Authority) Client(name string) (cert, key []byte, err error) {
	return a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, serverLife)
}

func (a *Authority) issue(template *x509.Certificate, life time.Duration) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	signed, err := a.sign(template, private.Public(), life, time.Now())
	if err != nil {
		return nil, nil, err
	}
	key, err = keyPEM(private)
	return certPEM(signed), key, err
}

// agent makes an agent's certificate for an incarnation of a cluster.
func (a *Authority) agent(
	cluster string, number int64, public crypto.PublicKey, life time.Duration, now time.Time,
) (*x509.Certificate, error) {
	return a.sign(&x509.Certificate{
		Subject: subject(cluster, number), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, public, life, now)
}

// sign makes a certificate that ends no later than the CA.
func (a *Authority) sign(
	template *x509.Certificate, public crypto.PublicKey, life time.Duration, now time.Time,
) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = now.Add(-min(clockSkew, life/10)), now.Add(life)
	if a.cert != template && template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	if !template.NotAfter.After(now) {
		return nil, fmt.Errorf("the CA has expired at %s: replace it", a.cert.NotAfter.UTC().Format(time.RFC3339))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func subject(cluster string, number int64) pkix.Name {
	name := pkix.Name{CommonName: cluster}
	if number > 0 {
		name.OrganizationalUnit = []string{incarnation + strconv.FormatInt(number, 10)}
	}
	return name
}

// incarnationOf returns the number in a certificate. It is 0 for a certificate of another origin.
func incarnationOf(cert *x509.Certificate) int64 {
	for _, unit := range cert.Subject.OrganizationalUnit {
		if digits, ok := strings.CutPrefix(unit, incarnation); ok {
			if number, err := strconv.ParseInt(digits, 10, 64); err == nil && number > 0 {
				return number
			}
		}
	}
	return 0
}

// parseRequest reads a CSR for a cluster. The CSR may omit the name.
func parseRequest(content []byte, cluster string) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(content)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, errors.New("the body must be one CERTIFICATE REQUEST in PEM")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the certificate signing request cannot be read: %w", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("the certificate signing request has a wrong signature: %w", err)
	}
	name := csr.Subject.CommonName
	switch {
	case name != "" && name != cluster:
		return nil, fmt.Errorf("the request is for cluster %.63q, but the agent may join only as %q", name, cluster)
	case len(csr.Subject.Names) > 1 || len(csr.Subject.Names) == 1 && name == "",
		len(csr.DNSNames)+len(csr.IPAddresses)+len(csr.EmailAddresses)+len(csr.URIs)+len(csr.Extensions) > 0:
		return nil, errors.New("the certificate signing request has other names: it may have only a common name")
	}
	return csr, checkKey(csr.PublicKey)
}

func checkKey(public crypto.PublicKey) error {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if key.Curve.Params().BitSize >= 256 {
			return nil
		}
	case ed25519.PublicKey:
		return nil
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits >= 2048 && bits <= 8192 {
			return nil
		}
	}
	return errors.New("the key must be ECDSA with P-256, P-384 or P-521, Ed25519, or RSA with 2048 to 8192 bits")
}

func certPEM(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

func keyPEM(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
