// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/internal/tlsfiles"
)

// settings are valid options with defaults. Secrets, and the query of the URL, are behind functions
// only, so that a printed value does not show them.
type settings struct {
	endpoint       endpoint
	clientID       string
	binary         bool
	username       string
	hasPassword    bool
	password       func() (string, error)
	tls            func() (*tls.Config, error) // nil for mqtt and ws
	keepAlive      uint16                      // seconds
	connectTimeout time.Duration
	sessionExpiry  uint32 // seconds
	maxPacketSize  int
	names          tlsfiles.OptionNames
}

type endpoint struct {
	scheme string
	host   string        // without port
	addr   string        // host:port
	target func() string // the URL of a WebSocket, with path and query
}

// String returns the name of the broker in errors, without path and query.
func (e endpoint) String() string { return e.scheme + "://" + e.addr }

func (e endpoint) secure() bool    { return e.scheme == "mqtts" || e.scheme == "wss" }
func (e endpoint) webSocket() bool { return e.scheme == "ws" || e.scheme == "wss" }

// settings validates o and fills in the defaults.
func (o Options) settings() (settings, error) {
	e, err := parseBrokerURL(o.BrokerURL)
	if err != nil {
		return settings{}, err
	}
	if err := o.validate(e); err != nil {
		return settings{}, err
	}
	s := settings{
		endpoint:       e,
		clientID:       o.ClientID,
		binary:         o.Binary,
		username:       o.Username,
		hasPassword:    o.Password != "" || o.PasswordFile != "",
		password:       o.password,
		keepAlive:      uint16(seconds(cmp.Or(o.KeepAlive, defaultKeepAlive))),
		connectTimeout: cmp.Or(o.ConnectTimeout, defaultConnectTimeout),
		sessionExpiry:  uint32(min(seconds(o.SessionExpiry), math.MaxUint32)),
		maxPacketSize:  min(cmp.Or(int(o.MaxPacketSize), largestPacket), largestPacket),
		names:          o.OptionNames,
	}
	if e.secure() {
		s.tls = func() (*tls.Config, error) { return o.tlsConfig(e.host) }
	}
	return s, nil
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// parseBrokerURL parses a URL. Its errors contain no query, and no URL with an @: the text before
// the @ may be a password.
func parseBrokerURL(brokerURL string) (endpoint, error) {
	const forms = "write mqtt://host:port, mqtts://host:port, ws://host:port/path or wss://host:port/path"
	s := publicURL(brokerURL)
	switch {
	case s == "":
		return endpoint{}, errors.New("BrokerURL is empty: " + forms)
	case strings.Contains(brokerURL, "@"):
		return endpoint{}, errors.New("BrokerURL contains user or password: " +
			"use Username and PasswordFile instead, and write any other @ as %40")
	case !strings.Contains(s, "://"):
		return endpoint{}, fmt.Errorf("BrokerURL %q has no scheme: %s", s, forms)
	}
	u, err := url.Parse(brokerURL)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return endpoint{}, fmt.Errorf("BrokerURL %q is not a URL: %w", s, err)
	}
	ports := map[string]string{"mqtt": "1883", "mqtts": "8883", "ws": "80", "wss": "443"}
	port, known := ports[u.Scheme]
	shown := u.Host // the Host header omits a default port, as in a browser
	switch {
	case !known:
		return endpoint{}, fmt.Errorf("BrokerURL %q has the scheme %q, which is not supported: %s", s, u.Scheme, forms)
	case u.Hostname() == "":
		return endpoint{}, fmt.Errorf("BrokerURL %q has no host: %s", s, forms)
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return endpoint{}, fmt.Errorf("BrokerURL %q has the port %s: it must be between 1 and 65535", s, p)
		}
		if p == port {
			shown = strings.TrimSuffix(shown, ":"+p)
		}
		port = p
	}
	e := endpoint{scheme: u.Scheme, host: u.Hostname(), addr: net.JoinHostPort(u.Hostname(), port)}
	target := (&url.URL{Scheme: u.Scheme, Host: shown}).String() + u.RequestURI()
	e.target = func() string { return target }
	if u.Fragment != "" || !e.webSocket() && u.RequestURI() != "/" {
		return endpoint{}, fmt.Errorf("BrokerURL %q must end after the port: only ws and wss have a path", s)
	}
	return e, nil
}

func (o Options) validate(e endpoint) error {
	ofTLS := tlsfiles.Client{Base: o.TLS, CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile}.Option()
	switch {
	case ofTLS != "" && !e.secure():
		return fmt.Errorf("%s is set, but BrokerURL %q is not encrypted: use mqtts:// or wss://", ofTLS, e)
	case (o.CertFile == "") != (o.KeyFile == ""):
		return errors.New("only one of CertFile and KeyFile is set: set both or neither")
	case o.CertFile != "" && o.TLS != nil && (len(o.TLS.Certificates) > 0 || o.TLS.GetClientCertificate != nil):
		return errors.New("both CertFile and a certificate in TLS are set: set one of them")
	case o.CAFile != "" && o.TLS != nil && o.TLS.RootCAs != nil:
		return errors.New("both CAFile and TLS.RootCAs are set: set one of them")
	case o.Password != "" && o.PasswordFile != "":
		return errors.New("both Password and PasswordFile are set: set one of them")
	case o.SessionExpiry > 0 && o.ClientID == "":
		return errors.New("SessionExpiry needs a ClientID: with a random one, no client could resume the session")
	case o.SessionExpiry < 0:
		return fmt.Errorf("invalid SessionExpiry: %v: must not be negative", o.SessionExpiry)
	case o.KeepAlive < 0 || o.KeepAlive > math.MaxUint16*time.Second:
		return fmt.Errorf("invalid KeepAlive: %v: must be between 1s and 65535s", o.KeepAlive)
	case o.TLS != nil && o.TLS.MaxVersion != 0 && o.TLS.MaxVersion < tls.VersionTLS12:
		return fmt.Errorf("invalid TLS.MaxVersion: %s: must be at least TLS 1.2", tls.VersionName(o.TLS.MaxVersion))
	case len(o.Password) > math.MaxUint16:
		return fmt.Errorf("invalid Password: %d bytes: MQTT allows %d", len(o.Password), math.MaxUint16)
	case o.ConnectTimeout < 0:
		return fmt.Errorf("invalid ConnectTimeout: %v: must not be negative", o.ConnectTimeout)
	}
	for name, value := range map[string]string{"ClientID": o.ClientID, "Username": o.Username} {
		if err := checkString(value); err != nil {
			return fmt.Errorf("%s %w", name, err)
		}
	}
	return nil
}

// password returns the password, from the file if one is set.
func (o Options) password() (string, error) {
	if o.PasswordFile == "" {
		return o.Password, nil
	}
	content, err := os.ReadFile(o.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("PasswordFile: %w", err)
	}
	password := strings.TrimRight(string(content), "\r\n")
	switch {
	case password == "":
		return "", fmt.Errorf("PasswordFile %s is empty: is it being replaced?", o.PasswordFile)
	case len(password) > math.MaxUint16:
		return "", fmt.Errorf("PasswordFile %s has %d bytes: MQTT allows %d",
			o.PasswordFile, len(password), math.MaxUint16)
	}
	return password, nil
}
