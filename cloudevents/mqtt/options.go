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

// Options says how to reach the broker. Only BrokerURL is required.
//
// A value prints without its password and the query of its URL, with any verb of package fmt, as JSON, and through
// logr and slog.
type Options struct {
	// BrokerURL is where the broker listens: mqtt://host, mqtts://host, ws://host/path or wss://host/path,
	// with a port where it is not the scheme's own (1883, 8883, 80, 443). mqtts and wss use TLS. Path and query
	// reach a WebSocket's server as they are written. User and password do not belong here and are refused.
	BrokerURL string
	// ClientID identifies the client to the broker and is used as it is; of two connections with the same
	// ID the broker ends the older. Defaults to the ID of the source or agent and a random suffix, which
	// stays the same for the life of the Transport.
	ClientID string
	// Binary publishes in the binary content mode. Defaults to structured, unless the profile of the
	// source or agent asks for binary. Both are always read.
	Binary bool

	// Username is the user at the broker. Defaults to none.
	Username string
	// Password is the user's password. Defaults to none.
	Password string `json:"-" yaml:"-"`
	// PasswordFile is read for each connection and holds the password; line breaks at its end do not
	// count. A file that is empty or missing fails the attempt to connect, and the next one reads it again.
	// It excludes Password.
	PasswordFile string

	// TLS is the base of the TLS configuration, for mqtts and wss only. It is copied for each connection; a
	// version below TLS 1.2 is raised to it. With CAFile or CertFile its session cache is not used, since a
	// resumed session goes by the certificates of the first. Defaults to the system's CAs and the host of
	// BrokerURL as the server's name.
	TLS *tls.Config
	// CAFile holds, in PEM, the CAs that the broker's certificate is verified with, instead of the
	// system's. It is read for each connection; an open connection is left as it is. A file that breaks off
	// within a certificate is not used: the attempt fails, and the next one reads it again. It excludes
	// TLS.RootCAs.
	CAFile string
	// CertFile and KeyFile hold, in PEM, the client's certificate and its key. They are read at each TLS
	// handshake; nothing of them is kept. Where the two do not match, because one of them is being replaced,
	// the attempt fails, and the next one reads them again. They come together and exclude certificates in
	// TLS.
	CertFile, KeyFile string

	// KeepAlive is after how much silence the link is checked; a link is given up after one and a half
	// times that. It is rounded up to seconds and at most 65,535 s. Defaults to 30 s. A broker may impose
	// another value.
	KeepAlive time.Duration
	// ConnectTimeout bounds everything from the dial to the granted subscriptions. Defaults to 10 s.
	ConnectTimeout time.Duration
	// SessionExpiry is how long the broker keeps subscriptions and messages for the client while it is
	// away, rounded up to seconds; from 2^32-1 s on without end. More than zero needs a ClientID. Defaults to 0.
	SessionExpiry time.Duration
	// MaxPacketSize, in bytes, is the largest packet to send where the broker would take a larger one. Defaults to
	// 16 MiB and cannot be higher: larger packets are not received either, and brokers are told to deliver none.
	MaxPacketSize uint32
}

// redacted stands for a password.
const redacted = "[redacted]"

// public is Options without the methods, and with nothing to hide.
type public Options

func (o Options) public() public {
	if o.Password != "" {
		o.Password = redacted
	}
	o.BrokerURL = publicURL(o.BrokerURL)
	return public(o)
}

// publicURL returns a URL without user, password and query, which gateways before a broker take tokens in.
func publicURL(s string) string {
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		// New refuses it, but whoever prints the options before must not see it either.
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
	p.TLS = nil // it may hold private keys
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), p)
}

// String is the same as formatting with %+v.
func (o Options) String() string { return fmt.Sprintf("%+v", o) }

// LogValue implements [slog.LogValuer]: the password is left out.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// MarshalLog implements [logr.Marshaler]: the password is left out.
//
// [logr.Marshaler]: https://pkg.go.dev/github.com/go-logr/logr#Marshaler
func (o Options) MarshalLog() any { return o.String() }

// MarshalJSON writes [Options.String] as a JSON string, for loggers that encode values as JSON.
func (o Options) MarshalJSON() ([]byte, error) { return json.Marshal(o.String()) }
