// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

const (
	defaultKeepAlive      = 30 * time.Second
	defaultConnectTimeout = 10 * time.Second
)

// Options configures the connection to a broker. Only BrokerURL is required.
//
// With any verb of package fmt, as JSON, and through logr and slog, a value prints without its
// password and the query of its URL.
type Options struct {
	// BrokerURL is the address of the broker: mqtt://host, mqtts://host, ws://host/path or
	// wss://host/path, with a port unless it is the scheme's default (1883, 8883, 80, 443). mqtts
	// and wss use TLS. Path and query are sent to a WebSocket's server unchanged. A URL with user
	// or password is refused.
	BrokerURL string
	// ClientID identifies the client to the broker and is used unchanged. If two connections have
	// the same ID, the broker ends the older one. Defaults to the ID of the source or agent and a
	// random suffix, which stays the same for the life of the Transport.
	ClientID string
	// Binary publishes in the binary content mode. Defaults to structured, unless the profile of
	// the source or agent requires binary. Both are always read.
	Binary bool

	// Username is the user at the broker. Defaults to none.
	Username string
	// Password is the user's password. Defaults to none.
	Password string `json:"-" yaml:"-"`
	// PasswordFile is a file with the password, which is read for each connection. Line breaks at
	// its end are ignored. It excludes Password.
	PasswordFile string

	// TLS is the base of the TLS configuration, for mqtts and wss only. It is copied for each
	// connection; a version below TLS 1.2 is raised to it. With CAFile or CertFile its session
	// cache is not used. Defaults to the system's CAs and the host of BrokerURL as the server's name.
	TLS *tls.Config
	// CAFile is a PEM file of the CAs that verify the broker's certificate, instead of the
	// system's. It is read for each connection. It excludes TLS.RootCAs.
	CAFile string
	// CertFile and KeyFile are PEM files of the client's certificate and its key. They are read at
	// each TLS handshake. Set both or neither. They exclude certificates in TLS.
	CertFile, KeyFile string

	// KeepAlive is the MQTT keep alive interval: a link is closed after one and a half times this
	// time without a byte. It is rounded up to seconds and at most 65,535 s. Defaults to 30 s. A
	// broker may impose another value.
	KeepAlive time.Duration
	// ConnectTimeout bounds the time from the dial to the granted subscriptions, without the time
	// that the client waits for others of its process to connect. Defaults to 10 s.
	ConnectTimeout time.Duration
	// SessionExpiry is how long the broker keeps subscriptions and messages for the client while it
	// is away, rounded up to seconds; 2^32-1 s and more mean without end. More than zero needs a
	// ClientID. Defaults to 0.
	SessionExpiry time.Duration
	// MaxPacketSize, in bytes, limits the packets to send, in addition to the broker's limit.
	// Defaults to 16 MiB, which is also the maximum. Received packets always have the limit 16 MiB.
	MaxPacketSize uint32

	// OptionNames are the names of options in the program, by field, for example "--ca" for CAFile.
	// Errors of New and of the transport contain them instead of the fields. Defaults to none.
	OptionNames map[string]string `json:"-" yaml:"-"`
}

const redacted = "[redacted]"

// public is Options without the methods, and without secrets.
type public Options

func (o Options) public() public {
	if o.Password != "" {
		o.Password = redacted
	}
	o.BrokerURL = publicURL(o.BrokerURL)
	return public(o)
}

// publicURL returns a URL without user, password and query. Gateways in front of a broker accept
// tokens in the query.
func publicURL(s string) string {
	if at := strings.LastIndexByte(s, '@'); at >= 0 { // New refuses it, but it may be printed before
		s = redacted + s[at:]
	}
	if query := strings.IndexAny(s, "?#"); query >= 0 && query < len(s)-1 {
		s = s[:query+1] + redacted
	}
	return s
}

// Format implements [fmt.Formatter]: the password is left out.
func (o Options) Format(f fmt.State, verb rune) {
	p := o.public()
	p.TLS = nil // it may contain private keys
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), p)
}

// String formats the options with %+v.
func (o Options) String() string { return fmt.Sprintf("%+v", o) }

// LogValue implements [slog.LogValuer]: the password is left out.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// MarshalLog implements [logr.Marshaler]: the password is left out.
//
// [logr.Marshaler]: https://pkg.go.dev/github.com/go-logr/logr#Marshaler
func (o Options) MarshalLog() any { return o.String() }

// MarshalJSON writes [Options.String] as a JSON string, for loggers that encode values as JSON.
func (o Options) MarshalJSON() ([]byte, error) { return json.Marshal(o.String()) }
