// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/etcdstore"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

const password = "pass-phrase-of-the-test"

// protect enables authentication with these users: root, hub for the prefix /hub/, reader, who may
// only read /hub/, and other for the prefix /other/.
func (s *server) protect() {
	s.t.Helper()
	admin := s.admin()
	must := func(_ any, err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	ctx := s.t.Context()
	must(admin.UserAdd(ctx, "root", password))
	must(admin.UserGrantRole(ctx, "root", "root"))
	for user, prefix := range map[string]string{"hub": "/hub/", "reader": "/hub/", "other": "/other/"} {
		kind := clientv3.PermReadWrite
		if user == "reader" {
			kind = clientv3.PermRead
		}
		must(admin.RoleAdd(ctx, user))
		must(admin.RoleGrantPermission(ctx, user, prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(kind)))
		must(admin.UserAdd(ctx, user, password))
		must(admin.UserGrantRole(ctx, user, user))
	}
	must(admin.AuthEnable(ctx))
}

// root returns a client of the user root.
func (s *server) root() *clientv3.Client {
	s.t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.url}, Username: "root", Password: password, DialTimeout: limit, Logger: zap.NewNop(),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestDocumentedRoleIsEnough: with the role of the package doc, all calls work.
func TestDocumentedRoleIsEnough(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	etcd.protect()
	o := etcdstore.Options{Prefix: "/hub/", Username: "hub", Password: password}
	c := &counter{store: etcd.open(o)}
	f := follow(t, etcd.open(o), pairs)
	c.count(t, 4)
	write(t, c.store, set("large", strings.Repeat("x", 3<<20)))
	f.endsAt(t, c)
	if err := f.lastErr(); err != nil {
		t.Error(err)
	}
}

// TestOpenNamesTheReason: Open returns an error that names what must be changed, without secrets.
func TestOpenNamesTheReason(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	for key, value := range map[string]string{"/hub/format": "spokewire-works/2", "/other/pods/a": "{}"} {
		if _, err := etcd.admin().Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	etcd.protect()
	closed := daemon.FreeAddr(t).String()
	refused := closed + ": connect: connection refused"
	secured, ca, _ := startSecured(t)
	as := func(user, prefix string) etcdstore.Options {
		return etcdstore.Options{Username: user, Password: password, Prefix: prefix}
	}
	at := func(endpoint string) etcdstore.Options { return etcdstore.Options{Endpoints: []string{endpoint}} }
	misspelled, late, uncertified := as("hub", ""), as("hub", ""), at(secured.addr)
	misspelled.Password += "x"
	late.Endpoints = []string{closed}
	uncertified.TLS = &tls.Config{RootCAs: ca.Pool()}
	unreachable, denied := etcdstore.ErrUnreachable, rpctypes.ErrPermissionDenied
	for name, c := range map[string]struct {
		o     etcdstore.Options
		want  error
		words string
	}{
		"no server":              {at("http://user:" + password + "@" + closed), unreachable, refused},
		"no server, with a user": {late, unreachable, refused},
		"wrong password":         {misspelled, rpctypes.ErrAuthFailed, "Options.Password"},
		"wrong user":             {as("hubb", ""), rpctypes.ErrAuthFailed, "Options.Username"},
		"no user":                {etcdstore.Options{}, rpctypes.ErrUserEmpty, "Options.Username"},
		"no rights":              {as("hub", ""), denied, "readwrite"},
		"read-only user":         {as("reader", "/hub/"), denied, "readwrite"},
		"foreign data":           {as("other", "/other"), etcdstore.ErrForeign, "/other/pods/a"},
		"later version":          {as("hub", "/hub"), etcdstore.ErrForeign, "spokewire-works/2"},
		"TLS, server without":    {at("https://" + etcd.addr), unreachable, "TLS handshake"},
		"no TLS, server with":    {at(secured.addr), unreachable, secured.addr},
		"unknown authority":      {at("https://" + secured.addr), unreachable, "signed by unknown authority"},
		"no client certificate":  {uncertified, unreachable, "certificate required"},
	} {
		t.Run(name, func(t *testing.T) {
			if len(c.o.Endpoints) == 0 {
				c.o.Endpoints = []string{etcd.url}
			}
			c.o.Timeout = 3 * time.Second
			e2etest.Eventually(t, "the reason", func() error { // a busy server may not answer in time
				s, err := etcdstore.Open(t.Context(), c.o)
				if err == nil {
					_ = s.Close()
				}
				t.Log(err)
				switch {
				case !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words):
					return fmt.Errorf("open: %w, want %w with %q", err, c.want, c.words)
				case strings.Contains(err.Error(), password):
					t.Error("the error has the password")
				}
				return nil
			})
		})
	}
}

// startSecured starts etcd with TLS and client certificates.
func startSecured(t *testing.T) (*server, *certtest.Authority, *certtest.Identity) {
	t.Helper()
	ca, folder := certtest.New(t), t.TempDir()
	cert, key := ca.Issue(t, "etcd", "127.0.0.1").Write(t, folder, "etcd")
	s := newServer(t, "https", "--cert-file="+cert, "--key-file="+key, "--client-cert-auth",
		"--trusted-ca-file="+ca.Write(t, folder, "ca"))
	root := ca.Issue(t, "root")
	return s, ca, root
}

// TestTLS: with a certificate of the client, all calls work.
func TestTLS(t *testing.T) {
	t.Parallel()
	etcd, ca, identity := startSecured(t)
	o := etcdstore.Options{TLS: &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{identity.Certificate}}}
	c := &counter{store: etcd.open(o)}
	f := follow(t, c.store, pairs)
	c.count(t, 2)
	f.endsAt(t, c)
}

// TestRevokedRightsAreReported: an operator revokes the role of a running store. Writes and Follow
// return ErrPermissionDenied. After the role is granted again, both continue.
func TestRevokedRightsAreReported(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	etcd.protect()
	o := etcdstore.Options{Prefix: "/hub/", Username: "hub", Password: password}
	c := &counter{store: etcd.open(o)}
	o.Timeout = quick.Timeout // Follow checks its rights this often
	f := follow(t, etcd.open(o), pairs)
	c.count(t, 2)
	root := etcd.root()
	if _, err := root.UserRevokeRole(t.Context(), "hub", "hub"); err != nil {
		t.Fatal(err)
	}
	if err := c.store.Apply(t.Context(), []work.Change{set("a", "1")}); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("Apply: %v", err)
	}
	e2etest.Eventually(t, "Follow", func() error {
		if err := f.lastErr(); err == nil || !errors.Is(err, rpctypes.ErrPermissionDenied) {
			return errors.Join(errors.New("not refused"), err)
		}
		return nil
	})
	t.Log(f.lastErr())
	if _, err := root.UserGrantRole(t.Context(), "hub", "hub"); err != nil {
		t.Fatal(err)
	}
	c.count(t, 2)
	f.endsAt(t, c)
}

// TestPrefixOfAnotherSource: NewSource refuses the prefix of another source, and accepts its own.
func TestPrefixOfAnotherSource(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	store := etcd.open(etcdstore.Options{Prefix: "/one"})
	one, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "one", Store: store})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- one.Start(ctx) }()
	if err := one.InventoryComplete(ctx); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for prefix, refused := range map[string]bool{"/one": true, "/two": false} {
		_, err := work.NewSource(memory.New().Transport(), work.SourceOptions{
			SourceID: "two", SharedGroup: "hubs", Store: etcd.open(etcdstore.Options{Prefix: prefix}),
		})
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), `belongs to source "one"`) {
			t.Errorf("source two with the prefix %s: %v", prefix, err)
		}
	}
}

// TestClosedStore: all methods return ErrClosed, and calls in progress end.
func TestClosedStore(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	for name, o := range map[string]etcdstore.Options{"own client": {}, "given client": {Client: etcd.admin()}} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, etcd.url, o)
			followed := make(chan error, 1)
			began := make(chan struct{})
			go func() {
				followed <- s.Follow(t.Context(), "", nil, func(work.Batch) error {
					close(began)
					return nil
				})
			}()
			<-began
			if err := errors.Join(s.Close(), s.Close()); err != nil {
				t.Error(err)
			}
			for what, err := range map[string]error{
				"Follow in progress": <-followed,
				"Follow":             s.Follow(t.Context(), "", nil, func(work.Batch) error { return nil }),
				"Apply":              s.Apply(t.Context(), []work.Change{set("a", "1")}),
				"ApplyIf":            s.ApplyIf(t.Context(), set("a", "1"), nil),
				"Load":               s.Load(t.Context(), func(string, []byte) error { return nil }),
			} {
				if !errors.Is(err, etcdstore.ErrClosed) {
					t.Errorf("%s: %v", what, err)
				}
			}
			for range 100 {
				if err := s.ApplyIf(t.Context(), set("a", "1"), nil); !errors.Is(err, etcdstore.ErrClosed) {
					t.Fatalf("the closed store was read: %v", err)
				}
			}
			if o.Client != nil {
				if _, err := o.Client.Get(t.Context(), "x"); err != nil {
					t.Errorf("Close closed the given client: %v", err)
				}
			}
		})
	}
}
