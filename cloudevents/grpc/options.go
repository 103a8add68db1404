// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/internal/tlsfiles"
)

const (
	defaultKeepAlive      = 30 * time.Second
	leastKeepAlive        = 10 * time.Second // of gRPC
	defaultConnectTimeout = 10 * time.Second
)

// Options configures the connection to a server. Only Address is required.
//
// With any verb of package fmt, as JSON, and through logr and slog, a value prints without its token.
type Options struct {
	// Address is the server as host:port.
	Address string
	// Insecure connects without TLS: everything is sent in clear text, including the token.
	Insecure bool

	// Token is the bearer token of the client. Defaults to none.
	Token string `json:"-" yaml:"-"`
	// TokenFile is a file with the token, which is read for each connection. White space around it
	// is ignored. It excludes Token.
	TokenFile string

	// TLS is the base of the TLS configuration. It is copied for each connection; a version below TLS
	// 1.2 is raised to it. With CAFile or CertFile its session cache is not used. Defaults to the
	// system's CAs and the host of Address as the server's name.
	TLS *tls.Config
	// CAFile is a PEM file of the CAs that verify the server's certificate, instead of the system's.
	// It is read for each connection. It excludes TLS.RootCAs.
	CAFile string
	// CertFile and KeyFile are PEM files of the client's certificate and its key. They are read at
	// each TLS handshake. Set both or neither. They exclude certificates in TLS.
	CertFile, KeyFile string

	// KeepAlive is the time without received data after which the client pings the server. Without
	// an answer, it closes the link after one and a half times KeepAlive. Defaults to 30 s; the
	// minimum is 10 s.
	KeepAlive time.Duration
	// ConnectTimeout bounds the time from the dial to the granted subscriptions, without the time
	// that the client waits for others of its process to connect. Defaults to 10 s.
	ConnectTimeout time.Duration

	// OptionNames are the names of options in the program, by field, for example "--ca" for CAFile.
	// Errors of New and of the transport contain them instead of the fields. Defaults to none.
	OptionNames map[string]string `json:"-" yaml:"-"`
}

// settings are valid options with defaults. The token is behind a function only, so that a printed
// value does not show it.
type settings struct {
	address        string
	token          func() (string, error)
	tls            func() (*tls.Config, error) // nil without TLS
	keepAlive      time.Duration
	connectTimeout time.Duration
	names          tlsfiles.OptionNames
}

// settings validates o and fills in the defaults.
func (o Options) settings() (settings, error) {
	host, err := o.validate()
	if err != nil {
		return settings{}, err
	}
	s := settings{
		address:        o.Address,
		token:          o.token,
		keepAlive:      cmp.Or(o.KeepAlive, defaultKeepAlive),
		connectTimeout: cmp.Or(o.ConnectTimeout, defaultConnectTimeout),
		names:          o.OptionNames,
	}
	if !o.Insecure {
		s.tls = func() (*tls.Config, error) { return o.tlsConfig(host) }
	}
	return s, nil
}

func (o Options) validate() (host string, err error) {
	host, port, err := net.SplitHostPort(o.Address)
	n, portErr := strconv.ParseUint(port, 10, 16)
	ofTLS := tlsfiles.Client{Base: o.TLS, CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile}.Option()
	switch {
	case err != nil || host == "" || portErr != nil || n == 0 || strings.Contains(host, "/"):
		return "", fmt.Errorf("invalid Address: %q: write host:port", o.Address)
	case ofTLS != "" && o.Insecure:
		return "", fmt.Errorf("%s is set with Insecure: remove one of them", ofTLS)
	case (o.CertFile == "") != (o.KeyFile == ""):
		return "", errors.New("only one of CertFile and KeyFile is set: set both or neither")
	case o.CertFile != "" && o.TLS != nil && (len(o.TLS.Certificates) > 0 || o.TLS.GetClientCertificate != nil):
		return "", errors.New("both CertFile and a certificate in TLS are set: set one of them")
	case o.CAFile != "" && o.TLS != nil && o.TLS.RootCAs != nil:
		return "", errors.New("both CAFile and TLS.RootCAs are set: set one of them")
	case o.TLS != nil && o.TLS.MaxVersion != 0 && o.TLS.MaxVersion < tls.VersionTLS12:
		return "", fmt.Errorf("invalid TLS.MaxVersion: %s: must be at least TLS 1.2", tls.VersionName(o.TLS.MaxVersion))
	case o.Token != "" && o.TokenFile != "":
		return "", errors.New("both Token and TokenFile are set: set one of them")
	case o.KeepAlive != 0 && o.KeepAlive < leastKeepAlive:
		return "", fmt.Errorf("invalid KeepAlive: %v: must be at least %v", o.KeepAlive, leastKeepAlive)
	case o.ConnectTimeout < 0:
		return "", fmt.Errorf("invalid ConnectTimeout: %v: must not be negative", o.ConnectTimeout)
	}
	return host, checkToken("Token", o.Token)
}

// checkToken refuses characters that gRPC would refuse with the token in its error.
func checkToken(field, token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%s has a character that is not printable ASCII", field)
	}
	return nil
}

// token returns the token, from the file if one is set, or "".
func (o Options) token() (string, error) {
	if o.TokenFile == "" {
		return o.Token, nil
	}
	content, err := os.ReadFile(o.TokenFile)
	if err != nil {
		return "", fmt.Errorf("TokenFile: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" {
		return "", fmt.Errorf("TokenFile %s is empty: is it being replaced?", o.TokenFile)
	}
	return token, checkToken("TokenFile "+o.TokenFile, token)
}

// public is Options without the methods, and without secrets.
type public Options

// Format implements [fmt.Formatter]: the token is left out.
func (o Options) Format(f fmt.State, verb rune) {
	if o.Token != "" {
		o.Token = "[redacted]"
	}
	o.TLS = nil // it may contain private keys
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), public(o))
}

// String formats the options with %+v.
func (o Options) String() string { return fmt.Sprintf("%+v", o) }

// LogValue implements [slog.LogValuer]: the token is left out.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// MarshalLog implements [logr.Marshaler]: the token is left out.
//
// [logr.Marshaler]: https://pkg.go.dev/github.com/go-logr/logr#Marshaler
func (o Options) MarshalLog() any { return o.String() }

// MarshalJSON writes [Options.String] as a JSON string, for loggers that encode values as JSON.
func (o Options) MarshalJSON() ([]byte, error) { return json.Marshal(o.String()) }
