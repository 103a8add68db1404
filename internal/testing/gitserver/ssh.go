// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package gitserver

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// SSH is the repository over SSH. The server runs in this process and runs git's own programs.
type SSH struct {
	// URL is the URL of the repository. KeyFile has an accepted private key, and KnownHostsFile has
	// the server's key.
	URL, KeyFile, KnownHostsFile string
	// Addr is the server's address, host:port.
	Addr string

	host ssh.PublicKey
}

// Know adds another address of the server, for example a proxy's, to the known hosts.
func (s SSH) Know(t testing.TB, address string) {
	t.Helper()
	text, err := os.ReadFile(s.KnownHostsFile)
	if err != nil {
		t.Fatal(err)
	}
	line := knownhosts.Line([]string{knownhosts.Normalize(address)}, s.host)
	if err := os.WriteFile(s.KnownHostsFile, append(text, line+"\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// SSH starts the server until the end of the test. It also accepts the keys of authorized, which
// are lines of an authorized_keys file.
func (s *Server) SSH(authorized ...string) SSH {
	s.t.Helper()
	folder := s.t.TempDir()
	host, user := s.key(), s.key()
	accepted := []string{string(user.PublicKey().Marshal())}
	for _, line := range authorized {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		s.check(err)
		accepted = append(accepted, string(key.Marshal()))
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if slices.Contains(accepted, string(key.Marshal())) {
			return &ssh.Permissions{}, nil
		}
		return nil, fmt.Errorf("unknown key")
	}}
	config.AddHostKey(host)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	s.check(err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { s.serveSSH(conn, config) })
		}
	})
	s.t.Cleanup(running.Wait)
	s.t.Cleanup(func() { _ = listener.Close() })
	out := SSH{Addr: listener.Addr().String(), KeyFile: filepath.Join(folder, "id"),
		KnownHostsFile: filepath.Join(folder, "known_hosts")}
	out.URL = "ssh://git@" + out.Addr + s.path
	block, err := ssh.MarshalPrivateKey(user.private, "")
	s.check(err)
	s.check(os.WriteFile(out.KeyFile, pem.EncodeToMemory(block), 0o600))
	out.host = host.PublicKey()
	s.check(os.WriteFile(out.KnownHostsFile, nil, 0o600))
	out.Know(s.t, out.Addr)
	return out
}

type key struct {
	ssh.Signer
	private ed25519.PrivateKey
}

func (s *Server) key() key {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	s.check(err)
	signer, err := ssh.NewSignerFromKey(private)
	s.check(err)
	return key{signer, private}
}

func (s *Server) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) serveSSH(conn net.Conn, config *ssh.ServerConfig) {
	defer func() { _ = conn.Close() }()
	c, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer func() { _ = c.Close() }()
	running.Go(func() { ssh.DiscardRequests(requests) })
	for open := range channels {
		channel, requests, err := open.Accept()
		if err != nil {
			return
		}
		running.Go(func() { s.serveChannel(channel, requests) })
	}
}

// serveChannel runs the program of the first exec request.
func (s *Server) serveChannel(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer func() { _ = channel.Close() }()
	for request := range requests {
		if request.Type != "exec" || len(request.Payload) < 4 {
			_ = request.Reply(false, nil)
			continue
		}
		_ = request.Reply(true, nil)
		program, path, _ := strings.Cut(string(request.Payload[4:]), " ")
		cmd := exec.Command("git", strings.TrimPrefix(program, "git-"), strings.Trim(path, "'"))
		cmd.Env, cmd.Stdout, cmd.Stderr = s.env, channel, channel.Stderr()
		stdin, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return
		}
		copied := make(chan struct{})
		go func() {
			defer close(copied)
			pump(stdin, channel)
		}()
		status := make([]byte, 4)
		if cmd.Wait() != nil {
			status[3] = 128
		}
		_, _ = channel.SendRequest("exit-status", false, status)
		_ = channel.Close()
		<-copied
		return
	}
}

// pump copies until from ends, and then closes the program's input.
func pump(to io.WriteCloser, from io.Reader) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
}
