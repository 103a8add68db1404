// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/quietlog"
	"github.com/spokewire/sdk-go/internal/wait"
)

const (
	defaultLifetime      = 30 * 24 * time.Hour
	defaultTokenLifetime = time.Hour
	mostTokenLifetime    = 30 * 24 * time.Hour
	mostUses             = 1000
	mostTokens           = 1000
	mostClusters         = 100_000
	// reloadPause is the least time between two reads of all records.
	reloadPause             = time.Second
	retryFirst, retryLatest = time.Second, time.Minute
)

// ErrNotReady is returned by [Server.Check] before the server has read the store.
var ErrNotReady = errors.New("the revoked clusters are not known yet: try again")

// ErrRevoked is returned by [Server.Check] for a revoked certificate.
var ErrRevoked = errors.New("the certificate of the cluster was revoked: join again with a new token")

// ErrNotFound is returned for a token that does not exist.
var ErrNotFound = errors.New("there is no such token")

// ErrNotApplied is returned by [Server.Revoke] when the revocation is in effect at the server and
// stored, but Apply has failed. Start retries it.
var ErrNotApplied = errors.New("the revocation is stored, but the broker has not confirmed it, and is asked again")

// ErrInvalid is the class of errors of invalid arguments, for errors.Is.
var ErrInvalid = errors.New("invalid argument")

type invalidError struct{ text string }

func (e *invalidError) Error() string        { return e.text }
func (e *invalidError) Is(target error) bool { return target == ErrInvalid }

// ServerOptions configures a [Server]. Store and the four files are required.
type ServerOptions struct {
	// Store has the tokens and the clusters.
	Store Store
	// CertFile and KeyFile are PEM files of the certificate for HTTPS, signed by the CA. CACertFile and
	// CAKeyFile are those of the CA, and CACertFile may also have other CAs after it. All files are
	// read again for each request.
	CertFile, KeyFile, CACertFile, CAKeyFile string
	// Lifetime is the lifetime of agents' certificates. Defaults to 30 days, and is at least 1 s.
	Lifetime time.Duration
	// Reserved are names that no cluster may have, such as the names of sources at a broker.
	Reserved []string
	// Revoked is called when Check refuses further certificates. It must not block. Defaults to none.
	Revoked func()
	// Apply changes the list of clusters of a broker that is another program. It is called with all
	// clusters after Start, with each change, and again after an error. Calls are not concurrent. A
	// certificate is issued after the cluster was added. Defaults to none.
	Apply func(ctx context.Context, changes []Change) error
	// Clock is the clock of tokens and certificates. Defaults to the real one.
	Clock clock.PassiveClock
}

// Change is a change of the clusters at a broker. It may have been applied before.
type Change struct {
	Cluster string
	// Subject is the subject of the cluster's certificates, as in RFC 2253. It differs after a later
	// join, so a broker that admits the subject refuses the revoked certificates.
	Subject string
	// Revoked is true if the connections of the subject must end and it must be refused. Otherwise the
	// subject must be admitted.
	Revoked bool
}

// Server issues certificates. Its methods may be called from any goroutine.
type Server struct {
	options  ServerOptions
	refusals *quietlog.Log
	ready    chan struct{}

	recording sync.Mutex // orders writes of clusters and reads of all records; locked before mu
	mu        sync.RWMutex
	clusters  map[string]membership
	failures  map[string]int // wrong secrets, by the ID of a token

	applying sync.Mutex // orders calls of Apply; locked before mu
	applied  map[string]membership
}

// NewServer returns a server. It validates the options and starts nothing.
func NewServer(o ServerOptions) (*Server, error) {
	fail := func(text string) (*Server, error) { return nil, errors.New("join server options: " + text) }
	switch {
	case o.Store == nil:
		return fail("Store is required")
	case o.CertFile == "" || o.KeyFile == "" || o.CACertFile == "" || o.CAKeyFile == "":
		return fail("CertFile, KeyFile, CACertFile and CAKeyFile are required")
	case o.Lifetime != 0 && o.Lifetime < time.Second:
		return fail(fmt.Sprintf("invalid Lifetime: %s: must be 1s or more", o.Lifetime))
	}
	o.Lifetime = cmp.Or(o.Lifetime, defaultLifetime)
	o.Clock = cmp.Or[clock.PassiveClock](o.Clock, clock.RealClock{})
	return &Server{
		options: o, refusals: quietlog.New("Refused to issue a certificate", "client", o.Clock),
		ready: make(chan struct{}), failures: map[string]int{}, applied: map[string]membership{},
	}, nil
}

// Ready returns a channel that is closed when Check works.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Check returns nil for a certificate of a cluster that is not revoked, ErrRevoked for a revoked one,
// and ErrNotReady before the server is ready. It does not verify the certificate: TLS does. The
// common name is the cluster, or system:open-cluster-management:<cluster>:<agent> as in OCM.
func (s *Server) Check(cert *x509.Certificate) error {
	if cert == nil {
		return errors.New("the client has no verified certificate")
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.clusters == nil {
		return ErrNotReady
	}
	if incarnationOf(cert) < s.clusters[clusterOf(cert.Subject.CommonName)].First {
		return ErrRevoked
	}
	return nil
}

// Revoked reports whether the certificates of a cluster are revoked, and it has not joined again.
func (s *Server) Revoked(cluster string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	m := s.clusters[cluster]
	return m.First > m.Last
}

// Start reads the clusters, follows the changes of other servers and of their tokens, and retries
// Apply, until ctx ends. It returns nil then. Errors of the store and of Apply are logged.
func (s *Server) Start(ctx context.Context) error {
	logger, logged := klog.FromContext(ctx), ""
	for attempt := 0; ctx.Err() == nil; {
		watching, stop := context.WithCancel(ctx)
		changed := s.options.Store.Watch(watching)
		err := s.reload(ctx)
		if err == nil {
			err = s.apply(ctx)
		}
		pause := reloadPause
		switch {
		case err == nil:
			attempt, logged = 0, ""
			select {
			case <-changed:
			case <-ctx.Done():
			case <-time.After(retryLatest): // also deletes expired tokens
			}
		case ctx.Err() == nil:
			if err.Error() != logged {
				logged = err.Error()
				logger.Error(err, "Failed to read the clusters or to apply a revocation, retrying")
			}
			pause = wait.Backoff(retryFirst, retryLatest, attempt)
			attempt++
		}
		stop()
		_ = wait.Sleep(ctx, clock.RealClock{}, pause)
	}
	return nil
}

// reload reads all records, and deletes old tokens.
func (s *Server) reload(ctx context.Context) error {
	s.recording.Lock()
	defer s.recording.Unlock()
	all, err := s.options.Store.List(ctx)
	if err != nil {
		return err
	}
	clusters, tokens := map[string]membership{}, map[string]bool{}
	for _, r := range all {
		if name, ok := nameIn(clusterPrefix, r.Key); ok {
			m, err := decode[membership](r)
			if err != nil {
				return err
			}
			clusters[name] = m
			continue
		}
		id, ok := nameIn(tokenPrefix, r.Key)
		if !ok {
			continue
		}
		t, err := decode[grant](r)
		if err != nil {
			return err
		}
		tokens[id] = true
		if s.options.Clock.Since(t.Expires) > keptExpired {
			_ = s.options.Store.Put(ctx, Record{Key: r.Key, Version: r.Version})
		}
	}
	s.mu.Lock()
	first, revoked := s.clusters == nil, false
	for name, m := range clusters {
		revoked = revoked || m.First > s.clusters[name].First
	}
	s.clusters = clusters
	for id := range s.failures {
		if !tokens[id] {
			delete(s.failures, id)
		}
	}
	s.mu.Unlock()
	if first {
		close(s.ready)
	}
	if revoked && s.options.Revoked != nil {
		s.options.Revoked()
	}
	return nil
}

// apply calls Apply with the changes since the last successful call.
func (s *Server) apply(ctx context.Context) error {
	if s.options.Apply == nil {
		return nil
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	var changes []Change
	now := map[string]membership{}
	s.mu.RLock()
	for name, m := range s.clusters {
		before, known := s.applied[name]
		if known && m == before {
			continue
		}
		now[name] = m
		for n := before.First; n < m.First; n++ {
			changes = append(changes, Change{Cluster: name, Subject: subject(name, n).String(), Revoked: true})
		}
		if m.member() {
			changes = append(changes, Change{Cluster: name, Subject: subject(name, m.Last).String()})
		}
	}
	s.mu.RUnlock()
	if len(changes) == 0 {
		return nil
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Cluster, b.Cluster) })
	if err := s.options.Apply(ctx, changes); err != nil {
		return fmt.Errorf("apply the clusters to the broker: %w", err)
	}
	for name, m := range now {
		s.applied[name] = m
	}
	return nil
}

// Revoke refuses all certificates of a cluster that exist, and deletes its tokens. It is idempotent. It
// returns an ErrInvalid for an invalid name, and an ErrNotApplied if Apply has failed.
func (s *Server) Revoke(ctx context.Context, cluster string) error {
	if err := s.checkName(cluster); err != nil {
		return err
	}
	tokens, err := s.Tokens(ctx)
	if err != nil {
		return err
	}
	for _, t := range tokens { // before the revocation, so that none begins the next incarnation
		if t.Cluster == cluster {
			if err := s.DeleteToken(ctx, t.ID); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
	}
	err = s.record(ctx, cluster, func(m membership) membership {
		m.First = m.Last + 1
		return m
	})
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Revoked the certificates of a cluster", "cluster", cluster)
	if s.options.Revoked != nil {
		s.options.Revoked()
	}
	if err := s.apply(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	return nil
}

// record changes the record of a cluster in the store, and then in memory.
func (s *Server) record(ctx context.Context, cluster string, change func(membership) membership) error {
	s.recording.Lock()
	defer s.recording.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		old, m, err := get[membership](ctx, s.options.Store, clusterPrefix+cluster)
		if err != nil {
			return err
		}
		next := change(m)
		if next == m {
			s.remember(cluster, m)
			return nil
		}
		if old.Version == 0 && s.full() {
			return fmt.Errorf("there are %d clusters: more are not supported", mostClusters)
		}
		err = put(ctx, s.options.Store, old, next)
		if err == nil {
			s.remember(cluster, next)
		}
		if !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

func (s *Server) full() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.clusters) >= mostClusters
}

func (s *Server) remember(cluster string, m membership) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clusters != nil {
		s.clusters[cluster] = m
	}
}

func (s *Server) checkName(cluster string) error {
	if !clusterForm.MatchString(cluster) {
		return &invalidError{fmt.Sprintf("invalid cluster %.100q: must be a DNS label, such as cluster1", cluster)}
	}
	if slices.Contains(s.options.Reserved, cluster) {
		return &invalidError{fmt.Sprintf("invalid cluster %q: the name is reserved for another user", cluster)}
	}
	return nil
}
