// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Recheck checks all connected clients again, as at the start of their connections, and ends the
// connections of clients that are not admitted any more. Call it when the authenticator or the
// authorizer has changed, for example after a revocation. It does not wait for the checks.
func (s *Server) Recheck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rechecks.Wake()
}

func (s *Server) nextRecheck() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rechecks.Next()
}

// clientCheck has the checks of a client from the start of a stream.
type clientCheck struct {
	service *service
	ctx     context.Context
	recheck <-chan struct{} // taken before the first check, so that none is missed
	who     Identity
	filters []string
}

// check repeats the checks. While they are not possible, the client stays connected.
func (c *clientCheck) check() error {
	if cert := c.who.Certificate; cert != nil && time.Now().After(cert.NotAfter) {
		return status.Error(codes.Unavailable, "the certificate of the client has expired: connect with another one")
	}
	who, err := c.service.identify(c.ctx)
	if err == nil && (who.User != c.who.User || !slices.Equal(who.Groups, c.who.Groups)) {
		return status.Error(codes.Unavailable, "the user or the groups of the client have changed: connect again")
	}
	if err == nil {
		_, _, err = c.service.server.grant(c.ctx, who, c.filters, nil)
	}
	if status.Code(err) == codes.Unavailable {
		return nil
	}
	return err
}

// due returns the time until the next check. It is random, so that not all clients are checked
// together.
func (c *clientCheck) due() time.Duration {
	interval := c.service.server.options.RecheckInterval
	d := interval/2 + rand.N(interval/2+1)
	if c.who.Certificate != nil {
		if left := time.Until(c.who.Certificate.NotAfter) + time.Millisecond; left > 0 {
			d = min(d, left)
		}
	}
	return d
}
