// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mosquitto

import (
	"cmp"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	defaultMaxInflight = 1000
	defaultMaxQueued   = 100_000
)

// Options says how the broker is configured. The zero value is an open broker
// without persistence, made for load: Nagle's algorithm is off, and its limits on
// messages in flight and queued are far above Mosquitto's own (20 and 1,000).
type Options struct {
	// Users maps user names to passwords. When it is not empty, clients without
	// one of them are refused. Defaults to anonymous access.
	Users map[string]string
	// ACL is the content of an ACL file. Defaults to everything allowed.
	ACL string

	// MaxInflight is how many QoS 1 and 2 messages may be on the way to a client,
	// and the receive maximum that the broker announces. Defaults to 1,000.
	MaxInflight int
	// MaxQueued is how many messages wait for one client beyond those in flight;
	// the broker drops what comes after. Negative is no limit. Defaults to 100,000.
	MaxQueued int
	// DefaultLimits leaves both limits out of the configuration, so Mosquitto's own apply: 20 messages in flight and 1,000
	// queued for a client. It excludes MaxInflight and MaxQueued.
	DefaultLimits bool
	// MaxPacketSize is the largest packet, in bytes, that the broker accepts, and
	// that it announces to MQTT 5 clients. Defaults to no limit.
	MaxPacketSize int
	// MaxMessageSize is the largest payload, in bytes, that the broker accepts
	// without announcing it. Defaults to no limit.
	MaxMessageSize int

	// CertFile and KeyFile are the broker's certificate and its key, in PEM. When
	// set, every listener speaks TLS.
	CertFile, KeyFile string
	// ClientCAFile holds, in PEM, the authorities of client certificates. When
	// set, a client must have one.
	ClientCAFile string

	// WebSockets adds a listener for MQTT over WebSockets on a port of its own.
	WebSockets bool

	// Lines are added to the configuration file as they are.
	Lines []string

	// Config returns a whole configuration file with one listener, on a port of 127.0.0.1. It takes the place of all
	// other options; CertFile still says that the listener speaks TLS. Start needs it to log notices to stderr.
	Config func(port int) string
}

// writeFiles writes the configuration and the files that it refers to.
func writeFiles(folder, config string, opts Options, port, wsPort int) error {
	if opts.Config != nil {
		return os.WriteFile(config, []byte(opts.Config(port)+"\n"+strings.Join(asRoot(), "\n")+"\n"), 0o600)
	}
	lines := opts.global()
	if len(opts.Users) > 0 {
		file := filepath.Join(folder, "passwords")
		content, err := passwords(opts.Users)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			return err
		}
		lines = append(lines, "allow_anonymous false", "password_file "+file)
	} else {
		lines = append(lines, "allow_anonymous true")
	}
	if opts.ACL != "" {
		file := filepath.Join(folder, "acl")
		if err := os.WriteFile(file, []byte(opts.ACL), 0o600); err != nil {
			return err
		}
		lines = append(lines, "acl_file "+file)
	}
	lines = append(lines, opts.listener(port, "mqtt")...)
	if wsPort != 0 {
		lines = append(lines, opts.listener(wsPort, "websockets")...)
	}
	lines = append(lines, opts.Lines...)
	return os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// global returns the settings of the whole broker.
func (o Options) global() []string {
	lines := []string{
		"log_dest stderr",
		"log_type error", "log_type warning", "log_type notice", "log_type information",
		"persistence false",
		"sys_interval 0",
		// Small packets in two directions and Nagle's algorithm together cost 8 ms.
		"set_tcp_nodelay true",
	}
	if !o.DefaultLimits {
		lines = append(lines,
			fmt.Sprintf("max_inflight_messages %d", cmp.Or(o.MaxInflight, defaultMaxInflight)),
			fmt.Sprintf("max_queued_messages %d", max(0, cmp.Or(o.MaxQueued, defaultMaxQueued))),
		)
	}
	lines = append(lines, asRoot()...)
	if o.MaxPacketSize > 0 {
		lines = append(lines, fmt.Sprintf("max_packet_size %d", o.MaxPacketSize))
	}
	if o.MaxMessageSize > 0 {
		lines = append(lines, fmt.Sprintf("message_size_limit %d", o.MaxMessageSize))
	}
	return lines
}

// asRoot lets the broker stay root where the test is. Else it becomes the user mosquitto, who may not read the test's
// folder.
func asRoot() []string {
	if os.Geteuid() == 0 {
		return []string{"user root"}
	}
	return nil
}

// listener returns one listener and its TLS settings, which belong to it alone.
func (o Options) listener(port int, protocol string) []string {
	lines := []string{fmt.Sprintf("listener %d %s", port, host), "protocol " + protocol}
	if o.CertFile != "" {
		lines = append(lines, "certfile "+o.CertFile, "keyfile "+o.KeyFile)
	}
	if o.ClientCAFile != "" {
		lines = append(lines, "cafile "+o.ClientCAFile, "require_certificate true")
	}
	return lines
}

// passwords returns the content of a password file in the form mosquitto_passwd
// writes it: PBKDF2 with SHA-512, so that no other program is needed.
func passwords(users map[string]string) (string, error) {
	const iterations = 101
	var file strings.Builder
	for _, user := range slices.Sorted(maps.Keys(users)) {
		salt := make([]byte, 12)
		if _, err := rand.Read(salt); err != nil {
			return "", err
		}
		key, err := pbkdf2.Key(sha512.New, users[user], salt, iterations, sha512.Size)
		if err != nil {
			return "", err
		}
		encode := base64.StdEncoding.EncodeToString
		fmt.Fprintf(&file, "%s:$7$%d$%s$%s\n", user, iterations, encode(salt), encode(key))
	}
	return file.String(), nil
}
