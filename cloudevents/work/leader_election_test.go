// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// memoryLease is the shared record of a leader election.
type memoryLease struct {
	mu      sync.Mutex
	version int
	record  *resourcelock.LeaderElectionRecord
}

// candidate is a [resourcelock.Interface] on a memoryLease.
type candidate struct {
	*memoryLease
	name string
	read int // version of its last read
}

func (c *candidate) Identity() string   { return c.name }
func (c *candidate) Describe() string   { return c.name }
func (c *candidate) RecordEvent(string) {}

func (c *candidate) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "hub")
	}
	c.read = c.version
	record := *c.record
	raw, err := json.Marshal(record)
	return &record, raw, err
}

func (c *candidate) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return c.Update(ctx, record)
}

func (c *candidate) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version != c.read {
		return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "hub", errors.New("it has changed"))
	}
	c.version++
	c.read, c.record = c.version, &record
	return nil
}

// probedManager is a manager of controller-runtime without a cluster. Tests can call its probes.
type probedManager struct {
	ctrl.Manager
	livez, readyz healthz.Checker
	stopped       chan error
}

func newManager(lease *memoryLease, name string) (*probedManager, error) {
	leaseDuration, renewDeadline, retryPeriod := 15*time.Second, 10*time.Second, 100*time.Millisecond
	mgr, err := ctrl.NewManager(&rest.Config{Host: "https://cluster.invalid"}, ctrl.Options{
		Logger: logr.Discard(), HealthProbeBindAddress: "0", Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionReleaseOnCancel: true,
		LeaderElectionResourceLockInterface: &candidate{memoryLease: lease, name: name},
		LeaseDuration:                       &leaseDuration, RenewDeadline: &renewDeadline, RetryPeriod: &retryPeriod,
	})
	return &probedManager{Manager: mgr, stopped: make(chan error, 1)}, err
}

func (m *probedManager) AddHealthzCheck(name string, check healthz.Checker) error {
	m.livez = check
	return m.Manager.AddHealthzCheck(name, check)
}

func (m *probedManager) AddReadyzCheck(name string, check healthz.Checker) error {
	m.readyz = check
	return m.Manager.AddReadyzCheck(name, check)
}

func (m *probedManager) run(ctx context.Context) {
	go func() { m.stopped <- m.Start(ctx) }()
}

// pod is a process with a manager, a source, and its own link to the broker.
type pod struct {
	*probedManager
	source *work.Source
	link   *link
	t      *testing.T
	end    context.CancelFunc
}

func (s *scene) pod(
	lease *memoryLease, name string, o work.SourceOptions, add func(ctrl.Manager, *work.Source) error,
) *pod {
	s.t.Helper()
	mgr, err := newManager(lease, name)
	if err != nil {
		s.t.Fatal(err)
	}
	p := &pod{probedManager: mgr, link: &link{Transport: s.bus.Transport()}, t: s.t}
	o.SourceID = "hub"
	if p.source, err = work.NewSource(p.link, o); err != nil {
		s.t.Fatal(err)
	}
	if err := add(mgr, p.source); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	p.end = cancel
	mgr.run(ctx)
	s.settle()
	return p
}

func (p *pod) stop() {
	p.t.Helper()
	p.end()
	if err := <-p.stopped; err != nil {
		p.t.Errorf("the manager ended with %v", err)
	}
}

// expect checks whether a pod is elected, and the results of its probes.
func (p *pod) expect(when string, elected bool, readyz string) {
	p.t.Helper()
	select {
	case <-p.Elected():
		if !elected {
			p.t.Errorf("%s: it is elected", when)
		}
	default:
		if elected {
			p.t.Errorf("%s: it is not elected", when)
		}
	}
	if err := p.livez(nil); err != nil {
		p.t.Errorf("%s, livez: %v", when, err)
	}
	switch err := p.readyz(nil); {
	case readyz == "" && err == nil:
	case readyz == "" || err == nil || !strings.Contains(err.Error(), readyz):
		p.t.Errorf("%s, readyz: %v, want %q", when, err, readyz)
	}
}

// TestReadyzOfStandby: a pod that stands by for the elected pod is ready, so a rolling update
// continues. An elected pod is ready when its source is ready.
func TestReadyzOfStandby(t *testing.T) {
	inScene(t, func(s *scene) {
		lease := &memoryLease{}
		old := s.pod(lease, "old", work.SourceOptions{}, addSource)
		old.expect("old", true, "")
		updated := s.pod(lease, "new", work.SourceOptions{}, addSource)
		updated.expect("new, standing by", false, "")
		if err := updated.source.Readyz(nil); err == nil || !strings.Contains(err.Error(), "not started") {
			t.Errorf("Readyz before Start: %v", err)
		}
		old.link.setCut(true)
		s.settle()
		old.expect("old, cut off", true, "not connected since")
		updated.expect("new, standing by for one that is cut off", false, "")
		old.stop()
		updated.link.setCut(true)
		s.settle()
		updated.expect("new, elected and cut off", true, "the link is cut")
		updated.link.setCut(false)
		time.Sleep(20 * time.Second)
		updated.expect("new, connected", true, "")
		updated.stop()
	})
}

var _ manager.LeaderElectionRunnable = (*work.Source)(nil)

// TestReadyzOfReplicas: all replicas that share a store run, and their probes do not depend on the
// election.
func TestReadyzOfReplicas(t *testing.T) {
	inScene(t, func(s *scene) {
		lease, store := &memoryLease{}, work.NewMemoryStore()
		add := func(mgr ctrl.Manager, source *work.Source) error {
			return errors.Join(
				mgr.Add(source),
				mgr.AddHealthzCheck("manifestworks", source.Livez),
				mgr.AddReadyzCheck("manifestworks", source.Readyz),
			)
		}
		options := work.SourceOptions{Store: store, SharedGroup: "replicas"}
		first := s.pod(lease, "first", options, add)
		first.expect("first", true, "")
		second := s.pod(lease, "second", options, add)
		second.expect("second", false, "")
		first.stop()
		s.settle()
		second.expect("second", true, "")
		second.stop()
	})
}
