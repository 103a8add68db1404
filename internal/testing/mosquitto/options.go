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

// Options configures the broker. The zero value is an open broker without persistence, made for
// load: Nagle's algorithm is off. Its limits on messages in flight and queued are far above
// Mosquitto's own (20 and 1,000).
type Options struct {
	// Users maps user names to passwords. If it is not empty, clients must log in as one of the
	// users. Defaults to anonymous access.
	Users map[string]string
	// ACL is the content of an ACL file. Defaults to everything allowed.
	ACL string

	// MaxInflight limits the QoS 1 and 2 messages in flight to a client. It is also the receive
	// maximum that the broker announces. Defaults to 1,000.
	MaxInflight int
	// MaxQueued limits the messages that wait for one client, in addition to those in flight. The
	// broker drops further messages. Negative means no limit. Defaults to 100,000.
	MaxQueued int
	// DefaultLimits omits both limits from the configuration, so Mosquitto's own apply: 20 messages
	// in flight and 1,000 queued for a client. It excludes MaxInflight and MaxQueued.
	DefaultLimits bool
	// MaxPacketSize is the largest packet, in bytes, that the broker accepts. The broker announces
	// it to MQTT 5 clients. Defaults to no limit.
	MaxPacketSize int
	// MaxMessageSize is the largest payload, in bytes, that the broker accepts. The broker does not
	// announce it. Defaults to no limit.
	MaxMessageSize int

	// CertFile and KeyFile are the broker's certificate and its key, in PEM. If set, every listener
	// uses TLS.
	CertFile, KeyFile string
	// ClientCAFile has the authorities of client certificates, in PEM. If set, a client must have a
	// certificate.
	ClientCAFile string

	// WebSockets adds a listener for MQTT over WebSockets on its own port.
	WebSockets bool

	// Lines are added to the configuration file unchanged.
	Lines []string

	// Config returns a whole configuration file with one listener, on a port of 127.0.0.1. It
	// replaces all other options, but CertFile still determines whether the listener uses TLS. The
	// configuration must log notices to stderr, because Start needs them.
	Config func(port int) string
}

// writeFiles writes the configuration and the files that it names.
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
		// Small packets in both directions with Nagle's algorithm cost 8 ms.
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

// asRoot keeps the broker root if the test is root. Otherwise it would become the user mosquitto,
// which may not read the test's folder.
func asRoot() []string {
	if os.Geteuid() == 0 {
		return []string{"user root"}
	}
	return nil
}

// listener returns one listener with its own TLS settings.
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

// passwords returns the content of a password file in the format of mosquitto_passwd: PBKDF2 with
// SHA-512. No other program is needed.
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
