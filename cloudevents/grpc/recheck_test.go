// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// rights are an authenticator and an authorizer that tests change. A token is the name of its user.
type rights struct {
	mu      sync.Mutex
	revoked map[string]error  // by user
	users   map[string]string // by token
}

func (r *rights) set(user string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.revoked = map[string]error{user: err}
}

func (r *rights) Authorize(ctx context.Context, a grpc.Access) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.revoked[a.Identity.User]; err != nil {
		return err
	}
	return grpc.AuthorizeNames().Authorize(ctx, a)
}

func (r *rights) AuthenticateToken(_ context.Context, token string) (grpc.Identity, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if user, ok := r.users[token]; ok {
		return grpc.Identity{User: user}, nil
	}
	return grpc.Identity{}, errors.New("unknown token")
}

// open connects and returns the connection until the end of the test.
func open(t *testing.T, o grpc.Options, filters ...string) cloudevents.Conn {
	t.Helper()
	conn, err := newTransport(t, o).Connect(t.Context(), cloudevents.ConnectOptions{
		Filters: filters, Receive: func(cloudevents.Message) {}, Refuse: func(string, error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// endsWith waits for the end of a connection with a code.
func endsWith(t *testing.T, conn cloudevents.Conn, code codes.Code) {
	t.Helper()
	select {
	case <-conn.Done():
		if status.Code(conn.Err()) != code {
			t.Errorf("the connection ended with %v, want the code %v", conn.Err(), code)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the connection is still open")
	}
}

func isOpen(t *testing.T, conn cloudevents.Conn) {
	t.Helper()
	select {
	case <-conn.Done():
		t.Errorf("the connection ended: %v", conn.Err())
	default:
	}
}

// TestRecheckEndsConnections checks that only the connections of a client without rights end, by
// certificate and by token, and that it is refused after it.
func TestRecheckEndsConnections(t *testing.T) {
	s := newSecure(t)
	var r rights
	r.users = map[string]string{"token1": "cluster1", "token2": "cluster2"}
	o := grpc.ServerOptions{ClientCAFile: s.caFile, Tokens: &r, Authorizer: &r}
	o.CertFile, o.KeyFile = s.ca.Issue(t, "server").Write(t, s.folder, "server2")
	server := newServer(t, o)
	s.addr, _ = serve(t, server, "")
	withToken := func(token string) grpc.Options {
		o := s.options(t, nil)
		o.Token = token
		return o
	}
	byCert, byToken := open(t, s.options(t, s.ca.Issue(t, "cluster1")), ownFilter), open(t, withToken("token1"),
		ownFilter)
	other := open(t, s.options(t, s.ca.Issue(t, "cluster2")), otherFilter)

	r.set("cluster1", status.Error(codes.Unavailable, "cannot decide"))
	server.Recheck()
	r.set("cluster2", nil)
	server.Recheck()
	for _, conn := range []cloudevents.Conn{byCert, byToken, other} {
		isOpen(t, conn)
	}

	r.set("cluster1", errors.New("revoked"))
	server.Recheck()
	endsWith(t, byCert, codes.PermissionDenied)
	endsWith(t, byToken, codes.PermissionDenied)
	isOpen(t, other)
	err := connectWith(t, s.options(t, s.ca.Issue(t, "cluster1")), ownFilter)
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a new connection: %v", err)
	}

	third := open(t, withToken("token2"), otherFilter)
	r.mu.Lock()
	r.users = nil
	r.mu.Unlock()
	server.Recheck()
	endsWith(t, third, codes.Unauthenticated)
	isOpen(t, other)
}

// TestEndOfCertificateEndsConnection checks that a connection ends with its certificate, without a
// call of Recheck.
func TestEndOfCertificateEndsConnection(t *testing.T) {
	s := newSecure(t)
	short := open(t, s.options(t, s.ca.IssueUntil(t, "cluster1", time.Now().Add(3*time.Second))), ownFilter)
	long := open(t, s.options(t, s.ca.Issue(t, "cluster2")), otherFilter)
	isOpen(t, short)
	endsWith(t, short, codes.Unavailable) // an agent has renewed it, and connects at once
	isOpen(t, long)
}

// TestRecheckInterval checks that a token that has expired ends a connection to OCM's service within
// the interval.
func TestRecheckInterval(t *testing.T) {
	r := &rights{users: map[string]string{"cluster1": "cluster1", "cluster2": "cluster2"}}
	withServer(t, grpc.ServerOptions{Tokens: r, RecheckInterval: time.Minute}, func(t *testing.T, s *plainServer) {
		first, second := s.agent("cluster1"), s.agent("cluster2")
		time.Sleep(time.Hour)
		r.mu.Lock()
		delete(r.users, "cluster1")
		r.mu.Unlock()
		began := time.Now()
		var err error
		for err == nil { // heartbeats
			err = first.RecvMsg(new(grpcwire.Raw))
		}
		if status.Code(err) != codes.Unauthenticated || time.Since(began) > time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		synctest.Wait()
		if err := second.RecvMsg(new(grpcwire.Raw)); err != nil {
			t.Errorf("the other client: %v", err)
		}
	})
}

// TestChangedUserConnectsAgain checks that a token of another user ends the connection.
func TestChangedUserConnectsAgain(t *testing.T) {
	r := &rights{users: map[string]string{"cluster1": "cluster1"}}
	withServer(t, grpc.ServerOptions{Tokens: r}, func(t *testing.T, s *plainServer) {
		first := s.agent("cluster1")
		r.mu.Lock()
		r.users["cluster1"] = "cluster2"
		r.mu.Unlock()
		s.Recheck()
		if err := first.RecvMsg(new(grpcwire.Raw)); status.Code(err) != codes.Unavailable {
			t.Error(err)
		}
	})
}
