// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package hostile_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/spokewire/sdk-go/internal/connlimit"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/h2test"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
)

const (
	// certsVariable names the folder of the certificates of an attacker.
	certsVariable = "SPOKEWIRE_HOSTILE_CERTS"
	// flooding is larger than the server's limits of connections, both before and after the end of
	// handshakes.
	flooding = 1700
	// handshakePlaces is the limit of connections before the end of their handshake.
	handshakePlaces = 500
)

// certificates writes a CA, a server's certificate and a client's certificate into a folder that
// attackers use too.
func certificates(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	ca := certtest.New(t)
	ca.Write(t, folder, "ca")
	ca.Issue(t, "server", "localhost").Write(t, folder, "tls")
	ca.Issue(t, "client").Write(t, folder, "client")
	t.Setenv(certsVariable, folder)
	return folder
}

// clientConfig returns the TLS configuration of a client with the certificates of a folder.
func clientConfig(folder string, protocols ...string) (*tls.Config, error) {
	ca, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "client.crt"), filepath.Join(folder, "client.key"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{
		ServerName:   "localhost",
		RootCAs:      pool,
		Certificates: []tls.Certificate{pair},
		NextProtos:   protocols,
	}, nil
}

// tlsAttack attacks a TLS server.
type tlsAttack func(addr string, config *tls.Config) error

// tlsAttacks returns all attacks that an attacker's process can run, by name.
func tlsAttacks() map[string]tlsAttack {
	all := handshakeAttacks()
	maps.Copy(all, pairAttacks())
	return all
}

// handshakeAttacks returns attacks that open connections and send no request. The server must close
// the connections.
func handshakeAttacks() map[string]tlsAttack {
	return map[string]tlsAttack{
		"connections without a hello": func(addr string, _ *tls.Config) error {
			return hold(addr, func(net.Conn) error { return nil })
		},
		"half a hello": func(addr string, config *tls.Config) error {
			text := hello(config)
			return hold(addr, func(conn net.Conn) error { return write(conn, text[:len(text)/2]) })
		},
		"a hello alone": func(addr string, config *tls.Config) error {
			text := hello(config)
			return hold(addr, func(conn net.Conn) error { return write(conn, text) })
		},
		"a handshake alone": func(addr string, config *tls.Config) error {
			return hold(addr, func(conn net.Conn) error { return tls.Client(conn, config).Handshake() })
		},
		"a handshake and half a preface": func(addr string, config *tls.Config) error {
			return hold(addr, func(conn net.Conn) error { return write(tls.Client(conn, config), h2test.Preface[:20]) })
		},
		"handshakes again and again": func(addr string, config *tls.Config) error {
			return again(addr, func(conn net.Conn) { _ = tls.Client(conn, config).Handshake() })
		},
		"hellos again and again": func(addr string, config *tls.Config) error {
			text := hello(config)
			return again(addr, func(conn net.Conn) {
				_ = write(conn, text)
				_, _ = conn.Read(make([]byte, 1)) // the server has completed its handshake
			})
		},
	}
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// hello returns the first message of a client.
func hello(config *tls.Config) string {
	near, far := net.Pipe()
	defer far.Close()
	go func() {
		defer near.Close()
		_ = tls.Client(near, config).Handshake()
	}()
	text := make([]byte, 16<<10)
	n, _ := far.Read(text)
	return string(text[:n])
}

// hold opens many connections, and begins each. It returns an error unless the server closes all of
// them soon after the time limit of a handshake.
func hold(addr string, begin func(net.Conn) error) error {
	var clients sync.WaitGroup
	var began, open atomic.Int32
	busy := make(chan struct{}, 50)
	for range flooding {
		busy <- struct{}{}
		clients.Go(func() {
			conn, err := net.DialTimeout("tcp", addr, 2*time.Second)
			if err == nil {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
				if begin(conn) == nil {
					began.Add(1)
				}
			}
			<-busy
			if err != nil {
				return
			}
			_ = conn.SetReadDeadline(time.Now().Add(connlimit.HandshakeTimeout + 3*time.Second))
			_, err = io.Copy(io.Discard, conn)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				open.Add(1)
			}
		})
	}
	clients.Wait()
	if n := open.Load(); n > 0 {
		return fmt.Errorf("%d connections are open", n)
	}
	if n := began.Load(); n < handshakePlaces {
		return fmt.Errorf("only %d connections began", n)
	}
	return nil
}

// again opens connections one after the other for a while.
func again(addr string, each func(net.Conn)) error {
	end := time.Now().Add(3 * time.Second)
	var clients sync.WaitGroup
	for range 100 {
		clients.Go(func() {
			for time.Now().Before(end) {
				conn, err := net.DialTimeout("tcp", addr, time.Second)
				if err != nil {
					continue
				}
				_ = conn.SetDeadline(end)
				each(conn)
				_ = conn.Close()
			}
		})
	}
	clients.Wait()
	return nil
}

// sockets returns the number of the program's sockets.
func (v *victim) sockets() (n int) {
	folder := fmt.Sprintf("/proc/%d/fd", v.cmd.Process.Pid)
	files, _ := os.ReadDir(folder)
	for _, file := range files {
		if target, err := os.Readlink(filepath.Join(folder, file.Name())); err == nil &&
			strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}

// flooded returns attacks that run in separate processes. During the attacks the server may have
// this number of additional sockets.
func (v *victim) flooded(addr string, attacks map[string]tlsAttack, sockets int) (all []attack) {
	calm := v.sockets()
	for name := range attacks {
		all = append(all, attack{name, func(t *testing.T) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				apart(t, addr, name)
			}()
			for most := 0; ; {
				select {
				case <-done:
					t.Logf("the server had up to %d more sockets", most-calm)
					if most > calm+sockets {
						t.Errorf("the server had %d more sockets", most-calm)
					}
					return
				case <-time.After(20 * time.Millisecond):
					most = max(most, v.sockets())
				}
			}
		}})
	}
	return all
}

// elsewhere connects from another address than the attackers.
func elsewhere(ctx context.Context, addr string) (net.Conn, error) {
	return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext(ctx, "tcp", addr)
}

// TestRsyncHandshakes: an engine closes connections that do not end their handshake, or send
// nothing after it, and they block no client.
func TestRsyncHandshakes(t *testing.T) {
	folder := certificates(t)
	file := func(name string) string { return filepath.Join(folder, name) }
	v := start(
		t,
		"rsync",
		"serve",
		"--listen",
		"127.0.0.1:0",
		"--store",
		filepath.Join(t.TempDir(), "rsync.db"),
		"--fake",
		"1",
		"--cert",
		file("tls.crt"),
		"--key-file",
		file("tls.key"),
		"--client-ca",
		file("ca.crt"),
	)
	addr := v.after(`"Started serving an rsync engine" address=`)
	// connected calls an engine on a new connection.
	connected := func(call func(context.Context, *rsyncgrpc.Client) error) error {
		client, err := rsyncgrpc.NewClient(addr, rsyncgrpc.ClientOptions{
			CAFile: file("ca.crt"), CertFile: file("client.crt"), KeyFile: file("client.key"), RetryTimeout: -1,
			ServerName: "localhost", DialOptions: []grpc.DialOption{grpc.WithContextDialer(elsewhere)},
		})
		if err != nil {
			return err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		return call(ctx, client)
	}
	b := appcontext.NewBuilder("honest")
	b.App(
		"main",
	).Resource(
		"fake",
		"cluster1",
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"x"}}`),
	)
	app, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := connected(func(ctx context.Context, c *rsyncgrpc.Client) error { return c.Create(ctx, app) }); err != nil {
		t.Fatal(err)
	}
	v.withstand(v.flooded(addr, handshakeAttacks(), handshakePlaces+100), func() error {
		return connected(func(ctx context.Context, c *rsyncgrpc.Client) error {
			_, err := c.Status(ctx, "honest")
			return err
		})
	})
}
