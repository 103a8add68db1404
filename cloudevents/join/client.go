// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/internal/atomicfile"
)

const (
	requestTimeout = 40 * time.Second
	maxAnswer      = 1 << 20
)

// Options configures [Join]. URL, Token and Dir are required.
type Options struct {
	// URL is the address of the hub's Server: https://host:port.
	URL   string
	Token Token
	// Dir is the folder for the files. It is created if it does not exist.
	Dir string
	// Cluster makes the join fail if the token is for another cluster. Defaults to the cluster of the
	// certificate in Dir, or any.
	Cluster string
}

// Join requests a client certificate with a token, and writes it to a folder. It returns the
// certificate. A folder that has a certificate keeps it until the new one is written. Join returns a
// [*RefusedError] if the hub refuses the token. After another error it may be called again, with the
// same token and folder.
func Join(ctx context.Context, o Options) (*x509.Certificate, error) {
	if err := checkURL(o.URL); err != nil {
		return nil, err
	}
	if o.Token == (Token{}) || o.Dir == "" {
		return nil, errors.New("join options: Token and Dir are required")
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	before, _ := readHub(o.Dir)
	cluster := cmp.Or(o.Cluster, before.Cluster)
	if before.Cluster != "" && before.Cluster != cluster {
		return nil, fmt.Errorf("%s has the certificate of cluster %q: use another folder", o.Dir, before.Cluster)
	}
	key, err := pendingKey(o.Dir)
	if err != nil {
		return nil, err
	}
	authorities, err := discover(ctx, o.URL, o.Token.authority)
	if err != nil {
		return nil, err
	}
	out, err := request(ctx, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities}, o.URL, cluster, key,
		"Bearer "+o.Token.Reveal())
	if err != nil {
		return nil, err
	}
	cert, err := out.write(o.Dir, o.URL, key, authorities, time.Now())
	if err == nil {
		err = os.Remove(filepath.Join(o.Dir, pendingFile))
	}
	return cert, err
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || *u != (url.URL{Scheme: "https", Host: u.Host}) {
		return errors.New("invalid URL of the hub: must be https://HOST:PORT")
	}
	return nil
}

// pendingKey returns the key of a join that has no answer yet, or a new one.
func pendingKey(dir string) (*ecdsa.PrivateKey, error) {
	file := filepath.Join(dir, pendingFile)
	if content, err := os.ReadFile(file); err == nil {
		if block, _ := pem.Decode(content); block != nil {
			if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
				if key, ok := key.(*ecdsa.PrivateKey); ok {
					return key, nil
				}
			}
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	content, err := keyPEM(key)
	if err != nil {
		return nil, err
	}
	return key, atomicfile.Write(file, content, 0o600)
}

// discover returns the CA of the hub with a hash. The connection is not authenticated: only the
// hash is compared.
func discover(ctx context.Context, base, hash string) (*x509.CertPool, error) {
	content, err := call(ctx, &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true,
		//nolint:gosec // the hash in the token authenticates the CA
	}, http.MethodGet, base+pathCA, nil, "")
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err == nil && cert.IsCA && hashOf(cert) == hash {
			pool := x509.NewCertPool()
			pool.AddCert(cert)
			return pool, nil
		}
	}
	return nil, fmt.Errorf("the CA of %s is not that of the token: is the URL that of the hub that made the token? "+
		"The token was not sent", base)
}

// request requests a certificate for a key. The name of the cluster may be empty.
func request(
	ctx context.Context, config *tls.Config, base, cluster string, key *ecdsa.PrivateKey, authorization string,
) (*answer, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: cluster}}, key)
	if err != nil {
		return nil, err
	}
	csr := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	content, err := call(ctx, config, http.MethodPost, base+pathCertificates, csr, authorization)
	if err != nil {
		return nil, err
	}
	out := new(answer)
	if err := json.Unmarshal(content, out); err != nil {
		return nil, fmt.Errorf("%s: the answer is not that of a hub: %w", base, err)
	}
	return out, nil
}

// call sends a request. The error is a [*RefusedError] if the hub refuses it.
func call(
	ctx context.Context, config *tls.Config, method, target string, body []byte, authorization string,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	transport := &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, CheckRedirect: noRedirect}).Do(r)
	if err != nil {
		return nil, explain(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", target, err)
	}
	if response.StatusCode == http.StatusOK {
		return content, nil
	}
	refused := new(RefusedError)
	if json.Unmarshal(content, refused) == nil && refused.Reason != "" {
		return nil, refused
	}
	return nil, fmt.Errorf("%s: %s: %.200s", target, response.Status,
		cmp.Or(refused.Message, strings.TrimSpace(string(content))))
}

// noRedirect keeps a token from another server.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// explain adds advice to an error of a connection.
func explain(err error) error {
	var host x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &host):
		return fmt.Errorf("%w: use a name that the hub's certificate has, or make it with this name", err)
	case errors.As(err, &authority):
		return fmt.Errorf("%w: the hub's certificate is not of the CA that it serves", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w: check the clock of this machine, or replace the hub's certificate", err)
	}
	return err
}

// write checks the certificate of an answer, and writes it with its key.
func (a *answer) write(
	dir, base string, key *ecdsa.PrivateKey, authorities *x509.CertPool, now time.Time,
) (*x509.Certificate, error) {
	private, err := keyPEM(key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair([]byte(a.Certificate), private)
	if err != nil {
		return nil, fmt.Errorf("the hub sent an unusable certificate: %w", err)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{
		Roots: authorities, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil,
			fmt.Errorf("the hub sent a certificate that is not valid: check the clocks of both machines: %w", err)
	}
	if pair.Leaf.Subject.CommonName != a.Cluster {
		return nil, fmt.Errorf("the hub sent a certificate for %.63q, not %.63q", pair.Leaf.Subject.CommonName,
			a.Cluster)
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(a.CA)) {
		return nil, errors.New("the hub sent no CA")
	}
	return pair.Leaf, a.store(dir, base, private)
}
