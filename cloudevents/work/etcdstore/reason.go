// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// reasonTimeout limits the search for the reason why one member is unreachable.
const reasonTimeout = time.Second

// withReason adds the reasons why members are unreachable. The client reports only that its time is
// over: it would try again.
func (s *Store) withReason(ctx context.Context, err error) error {
	if !errors.Is(err, ErrUnreachable) || s.options.Client != nil {
		return err
	}
	var reasons []string
	for _, endpoint := range s.options.Endpoints {
		if reason := s.reason(ctx, endpoint); reason != nil {
			reasons = append(reasons, reason.Error())
		}
	}
	if len(reasons) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", err, strings.Join(reasons, "; "))
}

// reason connects to a member as the client does.
func (s *Store) reason(ctx context.Context, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, reasonTimeout)
	defer cancel()
	scheme, addr := splitEndpoint(endpoint)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if scheme == "https://" || scheme == "" && s.options.TLS != nil {
		config := tlsConfig(s.options.TLS)
		config.NextProtos = []string{"h2"}
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(addr)
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("TLS handshake with %s: %w", addr, err)
		}
		conn = secure
	}
	// A server that requires a client certificate refuses it after the handshake.
	_ = conn.SetReadDeadline(time.Now().Add(reasonTimeout / 2)) // otherwise Read ends with the process of etcd
	if _, err := conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%s: %w", addr, err)
	}
	return fmt.Errorf("%s accepts connections and does not answer", addr)
}

// tlsConfig returns a copy with TLS 1.2 or newer.
func tlsConfig(c *tls.Config) *tls.Config {
	c = c.Clone()
	if c == nil {
		c = &tls.Config{}
	}
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	return c
}
