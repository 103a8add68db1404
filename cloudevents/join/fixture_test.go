// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/cloudevents/join"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience limits waits for a condition.
const patience = 2 * time.Minute

// site is a hub with a CA.
type site struct {
	*join.Server
	t       *testing.T
	url     string
	options join.ServerOptions
	ca      *join.Authority
	changes *changes
}

// changes records calls of Apply, which fail while err is set.
type changes struct {
	mu   sync.Mutex
	all  []string
	err  error
	ends int // calls of Revoked
}

func (c *changes) apply(_ context.Context, all []join.Change) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	for _, change := range all {
		verb := "admit "
		if change.Revoked {
			verb = "refuse "
		}
		c.all = append(c.all, verb+change.Subject)
	}
	return nil
}

func (c *changes) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.all, "; ")
}

func (c *changes) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// write writes a certificate and its key to a folder.
func write(t *testing.T, dir, name string, cert, key []byte, err error) (certFile, keyFile string) {
	t.Helper()
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if err := errors.Join(err, os.WriteFile(certFile, cert, 0o600), os.WriteFile(keyFile, key, 0o600)); err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile
}

// newSite starts a hub. change may change its options.
func newSite(t *testing.T, change func(*join.ServerOptions)) *site {
	t.Helper()
	ca, err := join.CreateAuthority("test CA")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, ca: ca, changes: &changes{}}
	dir := t.TempDir()
	cert, key, err := ca.PEM()
	s.options = join.ServerOptions{Store: &join.MemoryStore{}, Apply: s.changes.apply, Revoked: func() {
		s.changes.mu.Lock()
		defer s.changes.mu.Unlock()
		s.changes.ends++
	}}
	s.options.CACertFile, s.options.CAKeyFile = write(t, dir, "ca", cert, key, err)
	cert, key, err = ca.Server("localhost", "127.0.0.1")
	s.options.CertFile, s.options.KeyFile = write(t, dir, "hub", cert, key, err)
	if change != nil {
		change(&s.options)
	}
	s.Server, s.url = s.start()
	return s
}

// start starts a server with the options of the site.
func (s *site) start() (server *join.Server, url string) {
	s.t.Helper()
	server, err := join.NewServer(s.options)
	if err != nil {
		s.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := server.Start(ctx); err != nil {
			s.t.Error(err)
		}
	})
	running.Go(func() {
		if err := server.Serve(ctx, listener); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(func() { cancel(); running.Wait() })
	<-server.Ready()
	return server, "https://" + listener.Addr().String()
}

// token creates a token for one cluster.
func (s *site) token(o join.TokenOptions) join.Token {
	s.t.Helper()
	token, err := s.CreateToken(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

// join joins a cluster in a new folder.
func (s *site) join(cluster string) (dir string, cert *x509.Certificate) {
	s.t.Helper()
	dir = s.t.TempDir()
	cert, err := join.Join(s.t.Context(), join.Options{
		URL: s.url, Token: s.token(join.TokenOptions{Cluster: cluster}), Dir: dir,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return dir, cert
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}
