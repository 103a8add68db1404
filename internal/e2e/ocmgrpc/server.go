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

// Server is the process of a gRPC server behind links.
type Server struct {
	*daemon.Daemon
	Link    *tcpproxy.Proxy   // to the first address, for agents
	Links   []*tcpproxy.Proxy // to each address
	t       testing.TB
	name    string
	command func([]netip.AddrPort) ([]string, error)
}

// StartServer starts a gRPC server, and returns when it accepts connections. command prepares a
// start at as many addresses as ports, and returns the arguments of /usr/bin/env.
func StartServer(
	t testing.TB, name string, ports int, command func([]netip.AddrPort) ([]string, error),
) *Server {
	t.Helper()
	s := &Server{t: t, name: name, command: command}
	for range ports {
		s.Links = append(s.Links, tcpproxy.Start(t, ""))
	}
	s.Link = s.Links[0]
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// Addr returns the address of the server's link.
func (s *Server) Addr() string { return s.Link.Addr() }

// Restart kills the server and starts it again. It may be called from any goroutine.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.start(); err != nil {
		s.t.Error(err)
	}
}

// start starts the program at free addresses.
func (s *Server) start() error {
	for range 3 {
		addrs := make([]netip.AddrPort, len(s.Links))
		for i := range addrs {
			addrs[i] = daemon.FreeAddr(s.t)
		}
		args, err := s.command(addrs)
		if err != nil {
			return err
		}
		d, err := daemon.Start("/usr/bin/env", args...)
		if err != nil {
			return err
		}
		s.t.Cleanup(func() { s.end(d) })
		if err = d.WaitReady(e2etest.Patience, func() error { return ready(d, addrs) }); err == nil {
			s.Daemon = d
			for i, addr := range addrs {
				s.Links[i].Forward(addr.String())
			}
			return nil
		}
		d.Kill()
		if !portTaken(d) {
			return err
		}
	}
	return fmt.Errorf("%s: found no free ports", s.name)
}

// ready returns nil when all addresses accept connections.
func ready(d *daemon.Daemon, addrs []netip.AddrPort) error {
	if portTaken(d) {
		d.Kill() // Maestro would continue without the port
	}
	for _, addr := range addrs {
		if err := dial(addr.String()); err != nil {
			return err
		}
	}
	return nil
}

func portTaken(d *daemon.Daemon) bool { return strings.Contains(d.Log(), "address already in use") }

// end kills a process: the servers of OCM and Maestro wait for their streams when they end.
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
