// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// Server is the process of a gRPC server behind a link.
type Server struct {
	*daemon.Daemon
	Link    *tcpproxy.Proxy
	t       testing.TB
	name    string
	command func(netip.AddrPort) ([]string, error)
}

// StartServer starts a gRPC server, and returns when it accepts connections. command prepares a
// start at an address, and returns the arguments of /usr/bin/env.
func StartServer(t testing.TB, name string, command func(netip.AddrPort) ([]string, error)) *Server {
	t.Helper()
	s := &Server{t: t, name: name, command: command}
	addr, err := s.start()
	if err != nil {
		t.Fatal(err)
	}
	s.Link = tcpproxy.Start(t, addr)
	return s
}

// Addr returns the address of the server's link.
func (s *Server) Addr() string { return s.Link.Addr() }

// Restart kills the server and starts it again. It may be called from any goroutine.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	addr, err := s.start()
	if err != nil {
		s.t.Error(err)
		return
	}
	s.Link.Forward(addr)
}

// start starts the program at a free address.
func (s *Server) start() (addr string, err error) {
	for range 3 {
		free := daemon.FreeAddr(s.t)
		args, err := s.command(free)
		if err != nil {
			return "", err
		}
		d, err := daemon.Start("/usr/bin/env", args...)
		if err != nil {
			return "", err
		}
		s.t.Cleanup(func() { s.end(d) })
		addr = free.String()
		if err = d.WaitReady(e2etest.Patience, func() error { return dial(addr) }); err == nil {
			s.Daemon = d
			return addr, nil
		}
		d.Kill()
		if !strings.Contains(err.Error(), "address already in use") {
			return "", err
		}
	}
	return "", fmt.Errorf("%s: found no free port", s.name)
}

// end kills a process: OCM's server waits for its streams when it ends.
func (s *Server) end(d *daemon.Daemon) {
	d.Kill()
	if strings.Contains(d.Log(), "WARNING: DATA RACE") {
		s.t.Errorf("%s has a data race", s.name)
	}
	if s.t.Failed() {
		s.t.Logf("end of the log of %s:\n%s", s.name, d.Log())
	}
}

func dial(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}
