// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package fake has clusters in memory, for tests of programs that use package rsync.
//
//	clusters := fake.New()
//	engine, err := rsync.New(memstore.New(memstore.Options{}), clusters, rsync.Options{})
//	clusters.Cluster("edge", "cluster1").SetMode(fake.ModeUnreachable)
package fake

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// Clusters has the clusters of a test. It creates a cluster when it is first used. Its methods may
// be called from any goroutine.
type Clusters struct {
	mu   sync.Mutex
	all  map[appcontext.ClusterID]*Cluster
	open int
}

// New returns clusters in ModeWorks.
func New() *Clusters { return &Clusters{all: map[appcontext.ClusterID]*Cluster{}} }

// Cluster returns a cluster.
func (c *Clusters) Cluster(provider, name string) *Cluster {
	id := appcontext.ClusterID{Provider: provider, Name: name}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[id] == nil {
		c.all[id] = &Cluster{id: id, objects: map[appcontext.Object]*object{}, changed: make(chan struct{}),
			modeChanged: make(chan struct{}), counts: map[Verb]int{}}
	}
	return c.all[id]
}

// Connector implements [connector.Connectors].
func (c *Clusters) Connector(_ context.Context, provider, name string) (connector.Connector, error) {
	cluster := c.Cluster(provider, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	return &conn{Cluster: cluster, all: c}, nil
}

// Open returns the number of open connectors.
func (c *Clusters) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// Mode is the behaviour of a cluster.
type Mode int

// The modes.
const (
	ModeWorks       Mode = iota
	ModeUnreachable      // each call fails at once with connector.ErrUnreachable
	ModeBlackHole        // calls do not return until their context ends or the mode changes
	ModeFailing          // calls except probes fail with connector.ErrRetryable
	ModeRefusing         // calls except probes fail with connector.ErrTerminal
)

// Verb names a method of a Connector.
type Verb string

// The verbs.
const (
	VerbApply  Verb = "Apply"
	VerbDelete Verb = "Delete"
	VerbGet    Verb = "Get"
	VerbProbe  Verb = "Probe"
	VerbDiff   Verb = "Diff"
)

// Call is a call to a cluster for one object.
type Call struct {
	Verb   Verb
	Object appcontext.Object
	App    string
	Time   time.Time
}

type object struct {
	manifest []byte
	state    connector.State
	deleting bool
}

// Cluster is a cluster in memory. Its methods may be called from any goroutine.
type Cluster struct {
	id appcontext.ClusterID

	mu          sync.Mutex
	mode        Mode
	modeChanged chan struct{}
	delay       time.Duration
	latency     time.Duration
	unready     func(appcontext.Object) bool
	finalizer   bool
	hook        func(Verb, connector.Batch) error
	objects     map[appcontext.Object]*object
	changed     chan struct{}
	calls       []Call
	counts      map[Verb]int
	probes      []time.Time
}

func (c *Cluster) locked(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// SetMode changes the behaviour of the cluster. Calls that hang in ModeBlackHole continue in
// the new mode.
func (c *Cluster) SetMode(m Mode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mode = m
	close(c.modeChanged)
	c.modeChanged = make(chan struct{})
}

// SetDelay sets the duration of each call except Probe.
func (c *Cluster) SetDelay(d time.Duration) { c.locked(func() { c.delay = d }) }

// SetLatency sets the duration of each request: a Probe, a Get, a Diff, or one object of an Apply
// or a Delete. Apply and Delete handle objects one after the other, and report progress.
func (c *Cluster) SetLatency(d time.Duration) { c.locked(func() { c.latency = d }) }

// SetUnready makes each object that is applied later, and for which the function returns true,
// unready until SetReady. SetUnready(nil) ends this.
func (c *Cluster) SetUnready(which func(appcontext.Object) bool) {
	c.locked(func() { c.unready = which })
}

// SetFinalizer keeps deleted objects on the cluster until Finalize.
func (c *Cluster) SetFinalizer(on bool) { c.locked(func() { c.finalizer = on }) }

// Intercept calls f before each call. If f returns an error, the call returns it. Intercept(nil)
// ends the interception.
func (c *Cluster) Intercept(f func(Verb, connector.Batch) error) { c.locked(func() { c.hook = f }) }

// SetReady sets the state of an existing object.
func (c *Cluster) SetReady(o appcontext.Object, ready, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.objects[o]; have != nil {
		have.state.Ready, have.state.Failed = ready, failed
	}
	c.notifyLocked()
}

// SetObject changes an object as another writer would, for tests of drift. It creates the object or
// replaces its manifest, and keeps its readiness. A nil manifest deletes the object.
func (c *Cluster) SetObject(o appcontext.Object, manifest []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch have := c.objects[o]; {
	case manifest == nil:
		delete(c.objects, o)
	case have != nil:
		have.manifest = slices.Clone(manifest)
	default:
		c.objects[o] = &object{manifest: slices.Clone(manifest), state: connector.State{Object: o, Exists: true, Ready: true}}
	}
	c.notifyLocked()
}

// Finalize removes the objects that SetFinalizer keeps.
func (c *Cluster) Finalize() {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.objects, func(_ appcontext.Object, have *object) bool { return have.deleting })
	c.notifyLocked()
}

// notifyLocked wakes the watches.
func (c *Cluster) notifyLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Objects returns the manifests of the objects on the cluster.
func (c *Cluster) Objects() map[appcontext.Object]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[appcontext.Object]string{}
	for o, have := range c.objects {
		out[o] = string(have.manifest)
	}
	return out
}

// Calls returns the calls for objects, in order, without probes.
func (c *Cluster) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Count returns the number of calls of a method.
func (c *Cluster) Count(v Verb) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[v]
}

// Probes returns the times of the calls of Probe.
func (c *Cluster) Probes() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.probes)
}

// Forget drops Calls, Probes and counts.
func (c *Cluster) Forget() {
	c.locked(func() { c.calls, c.probes, c.counts = nil, nil, map[Verb]int{} })
}
