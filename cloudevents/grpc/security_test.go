// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

const secret = "t0ps3cret"

// tokens accepts one token, of cluster1.
type tokens struct{ valid string }

func (k tokens) AuthenticateToken(_ context.Context, token string) (grpc.Identity, error) {
	if token != k.valid {
		return grpc.Identity{}, errors.New("unknown token")
	}
	return grpc.Identity{User: "cluster1"}, nil
}

// secure is a server with TLS and the default authorizer.
type secure struct {
	ca     *certtest.Authority
	folder string
	caFile string
	addr   string
	server *grpc.Server
}

func newSecure(t *testing.T) secure {
	t.Helper()
	s := secure{ca: certtest.New(t), folder: t.TempDir()}
	s.caFile = s.ca.Write(t, s.folder, "ca")
	o := grpc.ServerOptions{ClientCAFile: s.caFile, Tokens: tokens{secret}, Authorizer: grpc.AuthorizeNames()}
	o.CertFile, o.KeyFile = s.ca.Issue(t, "server").Write(t, s.folder, "server")
	s.server = newServer(t, o)
	s.addr, _ = serve(t, s.server, "")
	return s
}

// options are for a client with a certificate.
func (s secure) options(t *testing.T, id *certtest.Identity) grpc.Options {
	t.Helper()
	o := grpc.Options{Address: s.addr, CAFile: s.caFile}
	if id != nil {
		o.CertFile, o.KeyFile = id.Write(t, t.TempDir(), "client")
	}
	return o
}

const (
	ownFilter   = "/sources/+/clusters/cluster1/manifests"
	otherFilter = "/sources/+/clusters/cluster2/manifests"
)

func connectWith(t *testing.T, o grpc.Options, filters ...string) error {
	t.Helper()
	conn, err := newTransport(t, o).Connect(t.Context(), cloudevents.ConnectOptions{
		Filters: filters, Receive: func(cloudevents.Message) {}, Refuse: func(string, error) {},
	})
	if err == nil {
		_ = conn.Close()
	}
	return err
}

func TestConnectionsAreAuthenticated(t *testing.T) {
	s := newSecure(t)
	other := certtest.New(t)
	for _, row := range []struct {
		name   string
		o      grpc.Options
		filter string
		code   codes.Code // OK for an error of TLS
		want   string     // part of the error, empty for success
	}{
		{"certificate", s.options(t, s.ca.Issue(t, "cluster1")), ownFilter, codes.OK, ""},
		{"OCM's certificate", s.options(t, s.ca.Issue(t, "system:open-cluster-management:cluster1:a")), ownFilter,
			codes.OK, ""},
		{"another cluster", s.options(t, s.ca.Issue(t, "cluster1")), otherFilter, codes.PermissionDenied,
			`user "cluster1" may not act as the agent of cluster "cluster2"`},
		{"an agent as a source", s.options(t, s.ca.Issue(t, "cluster1")),
			"/sources/hub/clusters/+/manifestsstatus", codes.PermissionDenied, `user "cluster1" may not act as source "hub"`},
		{"no common name", s.options(t, s.ca.Issue(t, "")), ownFilter, codes.PermissionDenied, "the client has no name"},
		{"no certificate", s.options(t, nil), ownFilter, codes.Unauthenticated, "no valid bearer token"},
		{"expired", s.options(t, s.ca.IssueUntil(t, "cluster1", time.Now().Add(-time.Minute))), ownFilter, codes.OK,
			"check CertFile"},
		{"another CA", s.options(t, other.Issue(t, "cluster1")), ownFilter, codes.OK,
			"the server does not trust the CA of the certificate: check CertFile"},
		{"token", grpc.Options{Address: s.addr, CAFile: s.caFile, Token: secret}, ownFilter, codes.OK, ""},
		{"unknown token", grpc.Options{Address: s.addr, CAFile: s.caFile, Token: "other" + secret}, ownFilter,
			codes.Unauthenticated, "no valid bearer token"},
		{"server of another CA", grpc.Options{Address: s.addr, CAFile: other.Write(t, s.folder, "other"), Token: secret},
			ownFilter, codes.OK, "check CAFile"},
		{"no such file", grpc.Options{Address: s.addr, CAFile: s.caFile, TokenFile: filepath.Join(s.folder, "none")},
			ownFilter, codes.OK, "TokenFile"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := connectWith(t, row.o, row.filter)
			if row.want == "" {
				if err != nil {
					t.Errorf("Connect: %v", err)
				}
				return
			}
			var permanent *cloudevents.PermanentError
			if !errors.As(err, &permanent) || !strings.Contains(err.Error(), row.want) {
				t.Fatalf("Connect returned %v, want a PermanentError with %q", err, row.want)
			}
			if got := status.Code(errors.Unwrap(permanent.Err)); row.code != codes.OK && got != row.code {
				t.Errorf("Connect returned the code %v, want %v: %v", got, row.code, err)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error has the token: %v", err)
			}
		})
	}
}

// undecided is an authenticator that cannot check tokens now.
type undecided struct{}

func (undecided) AuthenticateToken(context.Context, string) (grpc.Identity, error) {
	return grpc.Identity{}, status.Error(codes.Unavailable, "try again")
}

// TestUndecidedToken checks that a client tries again, unless its certificate is enough.
func TestUndecidedToken(t *testing.T) {
	for _, insecure := range []bool{false, true} {
		ca := certtest.New(t)
		folder := t.TempDir()
		caFile := ca.Write(t, folder, "ca")
		server, client := grpc.ServerOptions{Tokens: undecided{}, Insecure: insecure}, grpc.Options{Insecure: insecure}
		if !insecure {
			server.ClientCAFile, client.CAFile = caFile, caFile
			server.CertFile, server.KeyFile = ca.Issue(t, "server").Write(t, folder, "server")
		}
		client.Address, _ = serve(t, newServer(t, server), "")
		client.Token = secret
		err := connectWith(t, client)
		var permanent *cloudevents.PermanentError
		if status.Code(err) != codes.Unavailable || errors.As(err, &permanent) {
			t.Errorf("insecure %v: Connect returned %v, want Unavailable and no PermanentError", insecure, err)
		}
		if !insecure {
			client.CertFile, client.KeyFile = ca.Issue(t, "cluster1").Write(t, folder, "client")
			if err := connectWith(t, client, ownFilter); err != nil {
				t.Errorf("Connect with a certificate: %v", err)
			}
		}
	}
}

// countingTokens counts the tokens that it is asked about.
type countingTokens struct{ asked atomic.Int64 }

func (c *countingTokens) AuthenticateToken(context.Context, string) (grpc.Identity, error) {
	c.asked.Add(1)
	return grpc.Identity{}, errors.New("unknown token")
}

// TestSeveralTokensAreRefused checks that a call cannot have more than one token reviewed.
func TestSeveralTokensAreRefused(t *testing.T) {
	tokens := &countingTokens{}
	addr, _ := serve(t, newServer(t, grpc.ServerOptions{Insecure: true, Tokens: tokens}), "")
	ctx := t.Context()
	for i := range 3 {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", fmt.Sprint("Bearer t", i))
	}
	stream, err := rawClient(t, addr).NewStream(ctx, grpc.ConnectStream, grpc.ConnectMethod)
	if err != nil {
		t.Fatal(err)
	}
	if got := end(stream); got.Code() != codes.Unauthenticated || !strings.Contains(got.Message(), "authorization") {
		t.Errorf("the stream ended with %v, want Unauthenticated", got)
	}
	if n := tokens.asked.Load(); n != 0 {
		t.Errorf("%d tokens were reviewed, want 0", n)
	}
}

func TestPublicationsAreAuthorized(t *testing.T) {
	s := newSecure(t)
	conn := connect(t, newTransport(t, s.options(t, s.ca.Issue(t, "cluster1"))), nil)
	for topic, allowed := range map[string]bool{
		"/sources/hub/clusters/cluster1/manifestsstatus": true,
		"/sources/hub/clusters/cluster2/manifestsstatus": false,
		"/sources/hub/clusters/cluster1/manifests":       false,
	} {
		result := make(chan error, 1)
		if err := conn.Publish(t.Context(), message(topic), func(err error) { result <- err }); err != nil {
			t.Fatal(err)
		}
		err := <-result
		var temporary *cloudevents.TemporaryError
		if allowed != (err == nil) || errors.As(err, &temporary) {
			t.Errorf("topic %q: %v, want allowed %v and no TemporaryError", topic, err, allowed)
		}
	}
}

// TestDeniedOptionalFilter checks that a connection works without an optional filter.
func TestDeniedOptionalFilter(t *testing.T) {
	s := newSecure(t)
	var denied []string
	received := make(chan string, 1)
	conn, err := newTransport(t, s.options(t, s.ca.Issue(t, "cluster1"))).Connect(t.Context(), cloudevents.ConnectOptions{
		Filters: []string{ownFilter}, Optional: []string{otherFilter, "/clusters/cluster1/presence"},
		Denied: func(filter string, err error) {
			denied = append(denied, fmt.Sprint(filter, " ", status.Code(errors.Unwrap(err))))
		},
		Receive: func(m cloudevents.Message) { received <- m.Topic },
		Refuse:  func(topic string, err error) { t.Errorf("refused on topic %q: %v", topic, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if want := otherFilter + " PermissionDenied"; len(denied) != 1 || denied[0] != want {
		t.Errorf("denied %q, want only %q", denied, want)
	}
	hub := connect(t, s.server.Transport(), nil)
	for _, topic := range []string{"/sources/hub/clusters/cluster2/manifests",
		"/sources/hub/clusters/cluster1/manifests"} {
		if err := hub.Publish(t.Context(), message(topic), nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-received; got != "/sources/hub/clusters/cluster1/manifests" {
		t.Errorf("received a message on %q", got)
	}
}

// TestFilesAreReadForEachConnection checks that a replaced token and certificate are used without a
// restart, also that of the server.
func TestFilesAreReadForEachConnection(t *testing.T) {
	s := newSecure(t)
	file := filepath.Join(s.folder, "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	o := grpc.Options{Address: s.addr, CAFile: s.caFile, TokenFile: file}
	transport := newTransport(t, o)
	try := func() error {
		conn, err := transport.Connect(t.Context(), cloudevents.ConnectOptions{Filters: []string{ownFilter}})
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	if err := try(); status.Code(errors.Unwrap(errors.Unwrap(err))) != codes.Unauthenticated {
		t.Errorf("Connect with the old token returned %v, want Unauthenticated", err)
	}
	write("")
	var permanent *cloudevents.PermanentError
	if err := try(); err == nil || errors.As(err, &permanent) {
		t.Errorf("Connect with an empty file returned %v, want an error that is not permanent", err)
	}
	write(secret)
	if err := try(); err != nil {
		t.Errorf("Connect with the new token: %v", err)
	}
	next := certtest.New(t)
	next.Issue(t, "server").Write(t, s.folder, "server")
	if err := try(); !errors.As(err, &permanent) {
		t.Errorf("Connect to a server of another CA returned %v, want a PermanentError", err)
	}
	next.Write(t, s.folder, "ca")
	if err := try(); err != nil {
		t.Errorf("Connect with the new CA: %v", err)
	}
}

// TestWrongPort checks the errors of a server without TLS, of one with TLS, and of none.
func TestWrongPort(t *testing.T) {
	s := newSecure(t)
	plain, _ := serve(t, newServer(t, grpc.ServerOptions{}), "")
	for _, row := range []struct {
		name, want string
		o          grpc.Options
	}{
		{"server without TLS", "set Insecure", grpc.Options{Address: plain, CAFile: s.caFile}},
		{"server with TLS", "if it uses TLS, remove Insecure", grpc.Options{Address: s.addr, Insecure: true}},
		{"no server", "connection refused", grpc.Options{Address: "127.0.0.1:1", Insecure: true}},
	} {
		if err := connectWith(t, row.o); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: Connect returned %v, want an error with %q", row.name, err, row.want)
		}
	}
}
