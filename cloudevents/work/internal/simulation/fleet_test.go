// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/agent"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/source"
	"github.com/spokewire/sdk-go/codec"
)

// fleet is the owners of sources and the clusters of one run, with all that their users expect.
type fleet struct {
	t        *testing.T
	bus      *memory.Bus
	seed     uint64
	profile  codec.Profile
	config   config
	random   *rand.Rand
	faults   *faults
	count    *tally
	owners   []*owner
	clusters []*cluster
	values   int // number of values given to specs and statuses
	// The expected and the actual state of enhancement peers; see enhancement_test.go.
	enhancementOwner   *owner
	enhancementCluster *cluster

	// mu guards the fields that the watches and the broker use concurrently with the script.
	mu    sync.Mutex
	lives map[string]*life // by value of a spec or a status
	uids  map[string]*life // by incarnation
	// specs and statuses count the published messages, statuses by source.
	specs    int
	statuses map[string]int
	// reports is the set of reports that agents have sent, each with its incarnation.
	reports map[report]bool
}

// life is a work from its creation by its owner to its deletion. After a restart without a store,
// the source continues the life in another incarnation.
type life struct {
	owner, cluster, name string
	began                time.Time
	created              time.Time // by the current process of its source; guarded by fleet.mu
	ended                time.Time // zero while it lasts; guarded by fleet.mu
	// reused reports whether its enhancement source gave the version before. An agent that was away
	// then notices nothing: the fourth anomaly of the protocol.
	reused bool
}

// report is one report of a work controller, published as the status of an incarnation.
type report struct{ uid, message string }

// host is where processes run, one after the other. Its link and its clock outlive the processes.
type host struct {
	link  *link
	clock *wallClock
	// furthest is the highest offset that the clock ever had. back reports whether the clock was
	// ever set back.
	furthest time.Duration
	back     bool
	// store outlives the processes. It is nil if the processes have no store.
	store *work.MemoryStore
	kill  func() // ends the current process and waits for its goroutines
}

// wallClock is the wall clock of a host, which can be set. Its timers run normally.
type wallClock struct {
	clock.RealClock
	offset atomic.Int64
}

func (c *wallClock) Now() time.Time                  { return c.RealClock.Now().Add(time.Duration(c.offset.Load())) }
func (c *wallClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (f *fleet) newHost(name string) host {
	p := host{link: newLink(name, f.faults), clock: &wallClock{}}
	if f.config.Stores && f.random.IntN(2) == 0 {
		p.store = work.NewMemoryStore()
	}
	return p
}

func newFleet(t *testing.T, seed uint64, profile codec.Profile, count *tally, less ...func(*config)) *fleet {
	f := &fleet{
		t: t, bus: memory.New(), seed: seed, profile: profile, config: configOf(seed, profile),
		random: rand.New(rand.NewPCG(seed, 1)), count: count,
		lives: map[string]*life{}, uids: map[string]*life{}, statuses: map[string]int{}, reports: map[report]bool{},
	}
	for _, change := range less {
		change(&f.config)
	}
	f.faults = &faults{seed: seed, silent: f.config.Silent, fifo: f.config.FIFO, late: f.config.Late, log: f.logMessage}
	t.Cleanup(func() {
		time.Sleep(20 * time.Second) // for late messages
		if t.Failed() {
			t.Logf("again: go test ./cloudevents/work/internal/simulation -run '^%s$' -work.seed %d -v; %+v",
				strings.SplitN(t.Name(), "/", 2)[0], seed, f.config)
		}
	})
	f.bus.Intercept(f.observe)
	if f.config.Small {
		f.bus.SetMaxPacketSize(smallPacket)
	}
	for i := range 1 + f.random.IntN(4) {
		f.clusters = append(f.clusters, f.newCluster(fmt.Sprintf("cluster%d", i+1)))
	}
	for i := range 1 + f.random.IntN(3) {
		f.owners = append(f.owners, f.newOwner(fmt.Sprintf("hub-%c", 'a'+i)))
	}
	for _, o := range f.owners {
		o.start()
	}
	for _, c := range f.clusters {
		c.start()
	}
	return f
}

// smallPacket leaves room for a work, and for two or three in a list.
const smallPacket = 1800

// badValue begins values that agents never receive: the broker corrupts the specs with these
// values.
const badValue = "bad-"

// aReport matches a report of a work controller.
var aReport = regexp.MustCompile(`value-\d+ \d+`)

// log logs an action if one seed is replayed.
func (f *fleet) log(format string, args ...any) {
	if *replay != 0 && *seeds == 0 {
		f.t.Logf(time.Now().Format("04:05.000 ")+format, args...)
	}
}

// logMessage logs the relevant attributes of a message if one seed is replayed.
func (f *fleet) logMessage(who string, m cloudevents.Message) {
	if *replay == 0 || *seeds != 0 {
		return
	}
	x := m.Event.Extensions()
	f.log("%s %s V=%v uid=%v session=%v resync=%v del=%v seq=%v/%v %.300s",
		who, m.Topic, x["resourceversion"], x["workuid"], x["agentsession"], x["resyncid"],
		x["deletiontimestamp"], x["sequenceid"], x["statusseq"], m.Event.Data())
}

// observe counts the published messages, and corrupts bad specs.
func (f *fleet) observe(m cloudevents.Message, deliver func(cloudevents.Message)) {
	parts := strings.Split(m.Topic, "/")
	// Topics of one source and one cluster in ManifestWork.
	if len(parts) == 6 && parts[1] == "sources" && parts[3] == "clusters" {
		f.mu.Lock()
		switch parts[5] {
		case "manifests":
			f.specs++
		case "manifestsstatus":
			f.statuses[parts[2]]++
			uid, _ := m.Event.Extensions()["workuid"].(string)
			f.reports[report{uid, string(aReport.Find(m.Event.Data()))}] = true
		}
		f.mu.Unlock()
		if parts[5] == "manifests" && strings.Contains(string(m.Event.Data()), badValue) {
			spoilt := m.Event.Clone()
			spoilt.DataEncoded = []byte("{")
			m.Event = &spoilt
		}
	}
	f.count.add("messages", 1)
	if m.Event.Extensions()["chunkcount"] != nil {
		f.count.add("chunks", 1)
	}
	f.logMessage("published:", m)
	deliver(m)
}

// launch starts a process that logs nothing. The returned function ends the process and waits for
// its goroutines.
func (f *fleet) launch(start func(context.Context) error) (kill func()) {
	ctx, cancel := context.WithCancel(klog.NewContext(f.t.Context(), klog.Logger{}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := start(ctx); err != nil {
			f.t.Errorf("Start: %v", err)
		}
	}()
	kill = func() { cancel(); <-done }
	f.t.Cleanup(kill)
	return kill
}

// run does random operations.
func (f *fleet) run() {
	for range 40 + f.random.IntN(100) {
		f.step()
		f.inspect()
	}
}

func (f *fleet) anyOwner() *owner     { return f.owners[f.random.IntN(len(f.owners))] }
func (f *fleet) anyCluster() *cluster { return f.clusters[f.random.IntN(len(f.clusters))] }

// anyHost returns the host of a random source or agent.
func (f *fleet) anyHost() *host {
	if f.random.IntN(2) == 0 {
		return &f.anyOwner().host
	}
	return &f.anyCluster().host
}

func (f *fleet) step() {
	switch n := f.random.IntN(100); {
	case n < 45:
		f.anyOwner().change()
	case n < 62:
		f.anyCluster().serve(f.config.Slow)
	case n < 67:
		f.faults.on.Store(f.random.IntN(3) > 0)
	case n < 69:
		f.bus.Disconnect()
		f.pause()
		f.bus.Reconnect()
	case n < 70:
		f.bus.Stall()
		f.pause()
		f.bus.Resume()
	case n < 79 && f.config.Cuts:
		f.anyHost().link.setCut(f.random.IntN(2) == 0)
	case n < 84:
		f.anyCluster().restart()
	case n < 88:
		f.anyOwner().restart()
	case n < 91 && f.config.Clocks:
		f.setClock(f.anyHost())
	case n < 93 && f.config.Forget:
		f.anyOwner().forget()
	default:
		f.pause()
	}
}

// setClock sets a clock up to an hour off, if the seed sets clocks.
func (f *fleet) setClock(p *host) {
	if !f.config.Clocks {
		return
	}
	offset := time.Duration(f.random.IntN(7200)-3600) * time.Second
	f.mu.Lock()
	defer f.mu.Unlock()
	p.back = p.back || offset < p.furthest
	p.furthest = max(p.furthest, offset)
	p.clock.offset.Store(int64(offset))
	f.log("the clock of %s is %s off", p.link.name, offset)
}

func (f *fleet) pause() {
	time.Sleep(time.Duration(f.random.IntN(800)) * time.Millisecond)
	synctest.Wait()
}

// settle waits until all events of the next two seconds have been handled.
func (f *fleet) settle() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// reconnect disconnects all processes from the broker, and connects them again.
func (f *fleet) reconnect() {
	f.bus.Disconnect()
	f.settle()
	f.bus.Reconnect()
	f.settle()
}

// end ends a process, either by a crash or by an orderly stop that sends queued messages.
func (f *fleet) end(p *host) {
	if f.random.IntN(2) == 0 {
		p.link.setCut(true)
		defer p.link.setCut(false)
	}
	p.kill()
}

// value returns a value that no other spec and no other status has.
func (f *fleet) value(l *life, prefix string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.values++
	value := fmt.Sprintf("%s%d", prefix, f.values)
	f.lives[value] = l
	return value
}

func (f *fleet) lifeOf(value string) *life {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lives[value]
}

func (f *fleet) begin(o *owner, c *cluster, name string) *life {
	return &life{owner: o.id, cluster: c.name, name: name, began: time.Now()}
}

func (f *fleet) endLife(l *life) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.ended = time.Now()
}

// lasts reports whether the owner of a work has not deleted it.
func (f *fleet) lasts(l *life) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return l.ended.IsZero()
}

func (f *fleet) ownerOf(l *life) *owner {
	for _, o := range f.owners {
		if o.id == l.owner {
			return o
		}
	}
	return f.enhancementOwner
}

func (f *fleet) clusterOf(l *life) *cluster {
	for _, c := range f.clusters {
		if c.name == l.cluster {
			return c
		}
	}
	return f.enhancementCluster
}

// peerOptions returns the options of the next process of a host, with the defaults of package work.
func (f *fleet) peerOptions(p *host) peer.Options {
	o := peer.Options{
		Profile: f.profile, Clock: p.clock, Outbox: int(work.DefaultOutbox), TombstoneTTL: tombstoneTTL,
		ResyncInterval: work.DefaultResyncInterval, DrainTimeout: work.DefaultDrainTimeout,
		Cache: cache.Limits{Bytes: work.DefaultWatchCacheBytes, Age: work.DefaultWatchCacheTTL},
	}
	if p.store != nil {
		o.Store = p.store
	}
	return o
}

func (f *fleet) agentOptions(c *cluster) agent.Options {
	o := agent.Options{
		Options: f.peerOptions(&c.host), ClusterName: c.name, AgentID: c.name + "-work-agent",
		QuietTime:      work.DefaultInitialSyncTimeout,
		MaxSourceBytes: work.DefaultMaxSourceBytes, MaxBytes: work.DefaultMaxAgentBytes,
	}
	if f.config.Named && c == f.clusters[0] {
		if f.config.Open { // a source with an incomplete inventory may never end its answer
			o.PartialSyncTimeout = 10 * time.Second
		}
		for _, owner := range f.owners {
			o.Sources = append(o.Sources, owner.id)
		}
	}
	return o
}

func (f *fleet) sourceOptions(o *owner) source.Options {
	return source.Options{
		Options: f.peerOptions(&o.host), SourceID: o.id, MaxStatusBytes: work.DefaultMaxStatusBytes,
		MaxClusterBytes: work.DefaultMaxClusterBytes, MaxBytes: work.DefaultMaxBytes,
	}
}

// tombstoneTTL is far longer than a run, even for a clock that is set.
const tombstoneTTL = 6 * time.Hour
