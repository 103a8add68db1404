// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
)

// dialTimeout limits the time to connect, unless the context ends sooner.
const dialTimeout = 10 * time.Second

// openedKey caches a decrypted key: with a passphrase, decryption takes long by design.
type openedKey struct {
	text []byte
	keys *gitssh.PublicKeys
}

func (o *openedKey) open(user string, text []byte, passphrase string) (*gitssh.PublicKeys, error) {
	if o.keys != nil && bytes.Equal(o.text, text) {
		return o.keys, nil
	}
	keys, err := gitssh.NewPublicKeys(user, text, passphrase)
	if err == nil {
		o.text, o.keys = text, keys
	}
	return keys, err
}

func (r *remote) sshConfig(address string) (*ssh.ClientConfig, error) {
	a := r.at.Auth
	key, err := os.ReadFile(a.SSHKeyFile)
	if err != nil {
		return nil, &fileError{a.SSHKeyFile, err}
	}
	passphrase, err := r.secret(a.SSHPassphrase, "")
	if err != nil {
		return nil, err
	}
	keys, err := r.key.open(r.endpoint.User, key, passphrase)
	if err != nil {
		return nil, &fileError{a.SSHKeyFile, errors.New("it is not a private key that SSHPassphrase decrypts")}
	}
	if _, err := os.Stat(a.KnownHostsFile); err != nil {
		return nil, &fileError{a.KnownHostsFile, err}
	}
	hosts, err := gitssh.NewKnownHostsDb(a.KnownHostsFile)
	if err != nil {
		return nil, &fileError{a.KnownHostsFile, err}
	}
	keys.HostKeyCallback = hosts.HostKeyCallback()
	keys.HostKeyAlgorithms = hosts.HostKeyAlgorithms(address)
	return keys.ClientConfig()
}

func (r *remote) openSSH(ctx context.Context, s service) (session, error) {
	address := net.JoinHostPort(strings.Trim(r.endpoint.Host, "[]"), strconv.Itoa(cmp.Or(r.endpoint.Port, 22)))
	config, err := r.sshConfig(address)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	end := func() {
		stop()
		_ = conn.Close()
	}
	out, err := r.startSSH(conn, address, config, s)
	if err != nil {
		end()
		return nil, err
	}
	out.kill = end
	ended := out.wait
	out.wait = func() error {
		defer end()
		return ended()
	}
	return out, nil
}

func (r *remote) startSSH(conn net.Conn, address string, config *ssh.ClientConfig, s service) (*stream, error) {
	c, channels, requests, err := ssh.NewClientConn(conn, address, config)
	if err != nil {
		return nil, err
	}
	client := ssh.NewClient(c, channels, requests)
	run, err := client.NewSession()
	if err != nil {
		return nil, err
	}
	out := &stream{complaint: &head{}}
	run.Stderr = out.complaint
	var pipe io.Reader
	if out.in, err = run.StdinPipe(); err == nil {
		pipe, err = run.StdoutPipe()
	}
	if err == nil {
		err = run.Start(string(s) + " " + quote(r.endpoint.Path))
	}
	if err != nil {
		return nil, err
	}
	out.out = &limited{pipe, r.limit}
	out.wait = func() error {
		err := run.Wait()
		_ = client.Close()
		_ = client.Wait() // ends its goroutines
		return err
	}
	return out, nil
}

// quote writes a path as one word for a shell and for git-shell.
func quote(path string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(path) + "'"
}
