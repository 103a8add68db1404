// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/spokewire/sdk-go/internal/testing/h2test"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
)

// memory returns the bytes in use.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// raw sends bytes on a separate connection, which stays open.
func raw(t *testing.T, addr string, parts ...string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	for _, part := range parts {
		if _, err := io.WriteString(conn, part); err != nil {
			return // it was closed
		}
	}
}

// from returns a dial option with a local address.
func from(ip string) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext(ctx, "tcp", addr)
	})
}

// TestHeadersAreBounded: the budget counts open calls with the memory of their headers.
func TestHeadersAreBounded(t *testing.T) {
	const largest = 105 // fields of a header of 4 KiB
	for name, test := range map[string]struct {
		conns, fields int
		most          int64
	}{
		"within the budget":     {20, largest, 20 * 100 * 40 << 10},
		"beyond the budget":     {60, largest, 128 << 20},
		"too large":             {60, 900, 32 << 20},
		"ordinary, over budget": {60, 3, 128 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			check(t, s.engine.Create(t.Context(), shop(t, "a", "1")))
			addr, stop := serve(t, s.engine, rsyncgrpc.ServerOptions{ShutdownTimeout: time.Millisecond})
			defer stop()
			client := dial(t, addr, rsyncgrpc.ClientOptions{DialOptions: []grpc.DialOption{from("127.0.0.2")}})
			check(t, err2(client.Status(limited(t), "a")))
			before, most := memory(), int64(0)
			calls := h2test.Calls("/rsync.v1.Engine/Create", 100, test.fields)
			for range test.conns {
				raw(t, addr, h2test.Preface, calls)
			}
			for range 5 {
				check(t, err2(client.Status(limited(t), "a")))
				most = max(most, memory()-before)
				time.Sleep(100 * time.Millisecond)
			}
			conns := int64(test.conns) * 100 << 10
			t.Logf("%d calls hold %d MiB", test.conns*100, most>>20)
			if most > test.most+conns {
				t.Errorf("the calls hold %d MiB", most>>20)
			}
		})
	}
}

// TestTooLargeHeaderEndsConnection: a header that exceeds the limit closes its connection.
func TestTooLargeHeaderEndsConnection(t *testing.T) {
	s := newScene(t)
	addr, _ := serve(t, s.engine, rsyncgrpc.ServerOptions{})
	conn := must[net.Conn](t)(net.Dial("tcp", addr))
	defer conn.Close()
	check(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	check(t, err2(io.WriteString(conn, h2test.Preface+h2test.Calls("/rsync.v1.Engine/Create", 1, 900))))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stays open")
	}
}

// TestSilentConnections: connections with an unfinished handshake block no client.
func TestSilentConnections(t *testing.T) {
	files := newTLSFiles(t)
	for name, test := range map[string]struct {
		server rsyncgrpc.ServerOptions
		client rsyncgrpc.ClientOptions
		sent   string
	}{
		"silent":              {rsyncgrpc.ServerOptions{}, rsyncgrpc.ClientOptions{}, ""},
		"a part of a preface": {rsyncgrpc.ServerOptions{}, rsyncgrpc.ClientOptions{}, h2test.Preface[:20]},
		"without a handshake": {files.serverOptions(), files.clientOptions(), ""},
		"a part of a hello":   {files.serverOptions(), files.clientOptions(), "\x16\x03\x01\x40\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			check(t, s.engine.Create(t.Context(), shop(t, "a", "1")))
			test.server.MaxConnections = 20
			addr, stop := serve(t, s.engine, test.server)
			defer stop()
			for range 3 {
				for range 50 {
					raw(t, addr, test.sent)
				}
				test.client.RetryTimeout = -1
				client := dial(t, addr, test.client)
				check(t, err2(client.Status(limited(t), "a")))
				check(t, client.Close())
			}
		})
	}
}

// TestBudgetIsShared: many connections that use little memory each cannot make the server close the
// connection of another client.
func TestBudgetIsShared(t *testing.T) {
	files := newTLSFiles(t)
	evil := must[tls.Certificate](t)(tls.LoadX509KeyPair(files.ca.Issue(t, "evil").Write(t, files.folder, "evil")))
	encrypted := func() *http.Transport {
		return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: files.ca.Pool(), Certificates: []tls.Certificate{evil}},
			ForceAttemptHTTP2: true}
	}
	for name, test := range map[string]struct {
		server    rsyncgrpc.ServerOptions
		client    rsyncgrpc.ClientOptions
		scheme    string
		transport func() *http.Transport
	}{
		"another address": {rsyncgrpc.ServerOptions{},
			rsyncgrpc.ClientOptions{DialOptions: []grpc.DialOption{from("127.0.0.2")}}, "http://", plainHTTP2},
		"another certificate": {files.serverOptions(), files.clientOptions(), "https://", encrypted},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			test.server.MaxCallBytes = 32 << 20
			addr, stop := serve(t, s.engine, test.server)
			defer stop()
			test.client.RetryTimeout = -1
			client := dial(t, addr, test.client)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var holders sync.WaitGroup
			for range 100 {
				transport := test.transport()
				t.Cleanup(transport.CloseIdleConnections)
				holders.Go(func() { hold(ctx, transport, test.scheme+addr, 320<<10) })
			}
			t.Cleanup(holders.Wait)
			time.Sleep(2 * time.Second)
			large := strings.Repeat("x", 700<<10)
			check(t, client.Create(limited(t), shop(t, "a", large, "c1", "c2", "c3", "c4")))
		})
	}
}
