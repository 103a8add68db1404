// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

const (
	// rivalInterval is the interval of presence events while a process knows a rival or has not settled,
	// and sourceInterval that of a settled source without a rival. A rival that is silent for rivalTimeout
	// is forgotten.
	rivalInterval  = 5 * time.Second
	rivalTimeout   = 6 * rivalInterval
	sourceInterval = time.Minute
	// maxRivals bounds how many rivals a process remembers.
	maxRivals = 16
	// A process settles answerTime after it has received its own presence, or echoTime after the connection. The first
	// covers two lost presences in a row, of either process.
	answerTime = 12 * time.Second
	echoTime   = time.Minute
)

// presence finds other processes with the same ID: rivals. It is nil where replicas share the ID on purpose. The store's
// lock guards it.
type presence struct {
	lock     sync.Locker
	profile  codec.Profile
	clock    clock.WithTicker
	engine   *cloudevents.Engine
	ids      *idSequence
	header   codec.Header
	self     protocol.Process
	interval time.Duration // without a rival; 0 is never
	changed  func()        // called when rivals came or went

	logger    klog.Logger
	rivals    map[protocol.Process]time.Time // when each was last heard
	denied    error                          // why the broker does not let this process hear of others
	queued    bool                           // an event waits for its turn
	published time.Time
	settleAt  time.Time // when rivals have had the time to answer; zero while there is no connection
	settled   bool      // that time is over
	wake      chan struct{}
}

func newPresence(p presence) *presence {
	p.rivals, p.wake, p.logger = map[protocol.Process]time.Time{}, make(chan struct{}, 1), klog.Background()
	return &p
}

func (p *presence) use(e *cloudevents.Engine) {
	if p != nil {
		p.engine = e
	}
}

func (p *presence) started(now time.Time, logger klog.Logger) {
	if p != nil {
		p.self.Started, p.logger = now.UTC().Round(0), logger
	}
}

// filters returns what to subscribe to.
func (p *presence) filters() []string {
	if p == nil {
		return nil
	}
	return []string{p.profile.PresenceFilter(p.header.Source, p.header.Cluster)}
}

// refused notes that the broker does not let this process hear of others. Then it does not publish either: some brokers
// close a connection that publishes what they forbid.
func (p *presence) refused(_ string, err error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.denied == nil {
		p.logger.Info("Cannot detect other processes with this ID: the broker refuses the topic for that",
			"topic", p.filters()[0], "reason", err)
	}
	p.denied = err
	if !p.settleAt.IsZero() { // else it is not connected yet
		p.settleAt = p.clock.Now()
		p.wakeUp()
	}
}

// connected publishes the presence. It is called before anything else is published.
func (p *presence) connected() {
	if p == nil {
		return
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	now := p.clock.Now()
	for rival := range p.rivals { // it may have been this process that was away
		p.rivals[rival] = now
	}
	p.settled, p.queued = p.denied != nil, false
	p.settleAt = now.Add(echoTime)
	p.publish()
	p.wakeUp()
}

func (p *presence) disconnected() {
	if p == nil {
		return
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	p.denied, p.queued, p.settled, p.settleAt = nil, false, false, time.Time{}
}

// publish queues an event. The store's lock is held, as with all that follows.
func (p *presence) publish() {
	p.published = p.clock.Now()
	if p.denied != nil || p.queued {
		return
	}
	p.queued = true
	p.engine.Enqueue(cloudevents.Control, &presenceEvent{presence: p})
}

func (p *presence) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// heard takes the presence of a process with this ID, this one included.
func (p *presence) heard(m *codec.Presence) error {
	if p == nil || m.Source != p.header.Source || m.Cluster != p.header.Cluster {
		return unusable(refusedUnexpected, "the presence is that of another ID")
	}
	now := p.clock.Now()
	if m.Session == p.self.Session {
		if !p.settled && !p.settleAt.IsZero() && p.settleAt.Sub(now) > answerTime {
			p.settleAt = now.Add(answerTime)
			p.wakeUp()
		}
		return nil
	}
	rival := protocol.Process{Started: m.Started, Session: m.Session}
	if !rival.Credible(now) {
		return unusable(refusedVersion, "process %s claims to have started %s", m.Session, m.Started.Format(time.RFC3339))
	}
	_, known := p.rivals[rival]
	switch {
	case m.Leaving && known:
		p.forget(rival, "it ended")
		p.changed()
	case m.Leaving:
	case known:
		p.rivals[rival] = now
	case p.room(rival):
		p.rivals[rival] = now
		p.logger.Info("Detected another process with the same ID", "session", rival.Session, "started", rival.Started,
			"newer", p.self.Before(rival))
		p.publish()
		p.changed()
		p.wakeUp()
	}
	return nil
}

// room makes room for one more rival. The newest stay: they outrank this process.
func (p *presence) room(rival protocol.Process) bool {
	if len(p.rivals) < maxRivals {
		return true
	}
	oldest := rival
	for r := range p.rivals {
		if r.Before(oldest) {
			oldest = r
		}
	}
	delete(p.rivals, oldest)
	return oldest != rival
}

func (p *presence) forget(rival protocol.Process, reason string) {
	delete(p.rivals, rival)
	p.logger.Info("Another process with the same ID is gone", "session", rival.Session, "reason", reason)
}

// newest returns the newest rival, and whether there is one.
func (p *presence) newest() (newest protocol.Process, found bool) {
	if p == nil {
		return newest, false
	}
	for r := range p.rivals {
		if !found || newest.Before(r) {
			newest, found = r, true
		}
	}
	return newest, found
}

// outranked reports whether a newer process with this ID is known.
func (p *presence) outranked() bool {
	newest, found := p.newest()
	return found && p.self.Before(newest)
}

// describe returns an error that names the newest rival, nil where there is none.
func (p *presence) describe(newer, older string) error {
	newest, found := p.newest()
	if !found {
		return nil
	}
	age, effect := "an older", older
	if p.self.Before(newest) {
		age, effect = "a newer", newer
	}
	return fmt.Errorf("%s process with the same ID is connected (session %s, started %s): %s",
		age, newest.Session, newest.Started.Format(time.RFC3339), effect)
}

// run publishes the presence and forgets silent rivals until ctx ends.
func (p *presence) run(ctx context.Context) {
	if p == nil {
		return
	}
	for ctx.Err() == nil {
		var due <-chan time.Time
		stop := func() bool { return true }
		if wait := p.tick(); wait > 0 {
			timer := p.clock.NewTimer(wait)
			due, stop = timer.C(), timer.Stop
		}
		select {
		case <-ctx.Done():
		case <-p.wake:
		case <-due:
		}
		stop()
	}
}

// tick does what is due and returns how long it is until more is; 0 is never.
func (p *presence) tick() (wait time.Duration) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.settleAt.IsZero() {
		return 0
	}
	now := p.clock.Now()
	until := func(d time.Duration) {
		if d = max(d, time.Millisecond); wait == 0 || d < wait {
			wait = d
		}
	}
	changed := false
	for rival, last := range p.rivals {
		if isDue(last.Add(rivalTimeout), now, rivalTimeout) {
			p.forget(rival, "it is silent")
			changed = true
			continue
		}
		until(last.Add(rivalTimeout).Sub(now))
	}
	if !p.settled {
		if !isDue(p.settleAt, now, echoTime) {
			until(p.settleAt.Sub(now))
		} else {
			p.settled, changed = true, true
		}
	}
	interval := p.interval
	if len(p.rivals) > 0 || !p.settled {
		interval = rivalInterval
	}
	if interval > 0 {
		if isDue(p.published.Add(interval), now, interval) {
			p.publish()
		}
		until(p.published.Add(interval).Sub(now))
	}
	if changed {
		p.changed()
	}
	return wait
}

// leave publishes that this process ends, after all that waits. The store's lock is not held.
func (p *presence) leave() {
	if p == nil || !p.engine.Connected() {
		return
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.denied == nil {
		p.engine.Enqueue(cloudevents.Live, &presenceEvent{presence: p, leaving: true})
	}
}

// presenceEvent is the presence as an item of the outbox.
type presenceEvent struct {
	presence *presence
	leaving  bool
}

func (e *presenceEvent) Message() (cloudevents.Message, error) {
	p := e.presence
	p.lock.Lock()
	if !e.leaving {
		p.queued = false
	}
	m := codec.Presence{Header: p.header, Session: p.self.Session, Started: p.self.Started, Leaving: e.leaving}
	p.lock.Unlock()
	m.ID, m.Time = p.ids.next(), p.clock.Now().UTC()
	return encode(p.profile, &m)
}

func (e *presenceEvent) Settled(err error) {
	if err != nil && !errors.Is(err, cloudevents.ErrConnectionLost) {
		e.presence.refused("", err)
	}
}
