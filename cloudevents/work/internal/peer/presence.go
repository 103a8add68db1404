// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/wait"
)

// Times and bounds of presences.
const (
	// rivalInterval is the interval of presence events while a process has a rival or checks for
	// rivals. SourceInterval is the interval of a source otherwise, and of a check that has
	// received no presence of its own process for echoTime. A rival that is silent for rivalTimeout
	// is removed.
	rivalInterval  = 5 * time.Second
	rivalTimeout   = 6 * rivalInterval
	SourceInterval = time.Minute // see rivalInterval
	// maxRivals bounds how many rivals a process remembers.
	maxRivals = 16
	echoTime  = time.Minute
	// A check ends answerTime after the process has received a presence of its own, or later if
	// that presence took long. NextLocked joins the check until joinTime after it. The remaining
	// time covers two lost presences in a row.
	answerTime  = 2*rivalInterval + 2*joinTime
	joinTime    = time.Second
	longestEcho = 10 * time.Minute
	// maxPublished bounds how many presences of a check are remembered.
	maxPublished = 16
)

// Presence detects other processes with the same ID: rivals. It is nil if replicas share the ID on
// purpose. The mutex of its source or agent, in the field Lock, guards it.
type Presence struct {
	Lock     sync.Locker
	Profile  codec.Profile
	Clock    clock.WithTicker
	engine   *engine.Engine
	IDs      *IDSequence
	Header   codec.Header
	Self     protocol.Process
	Interval time.Duration // without a rival; 0 is never
	Changed  func()        // called when rivals were added or removed
	Checked  func()        // called when a check has ended; may be nil

	logger    klog.Logger
	rivals    map[protocol.Process]time.Time // when the last presence of each arrived
	denied    error                          // why the broker refuses the presence topic; nil if it does not
	queued    bool                           // a presence is in the outbox
	published time.Time
	online    bool
	check     presenceCheck
	wake      wait.Signal
}

// presenceCheck is a search for rivals: the process publishes its presence, receives it, and waits
// for the presences of rivals. Checks are numbered. A check is in progress while begun and ended
// differ.
type presenceCheck struct {
	begun, ended uint64
	again        bool // another check follows
	reported     bool // that the process is deaf
	beganAt      time.Time
	published    []publishedPresence // the last presences
	echoAt       time.Time           // when the process first received one of them
	wait         time.Duration       // for rivals, from echoAt on
}

type publishedPresence struct {
	id string
	at time.Time // on the monotonic clock, because Options.Clock may be set
}

func (c *presenceCheck) underWay() bool { return c.begun != c.ended }

func (p *Presence) beginLocked() {
	c := &p.check
	*c = presenceCheck{begun: c.begun + 1, ended: c.begun, beganAt: p.Clock.Now()}
	p.publishLocked()
	p.wake.Set()
}

// NextLocked returns the number of the check that detects rivals which may have made a work seen
// now. It joins the current check, begins a check, or lets another check follow the current one.
func (p *Presence) NextLocked() uint64 {
	c := &p.check
	switch {
	case !c.underWay():
		p.beginLocked()
	case !c.echoAt.IsZero() && p.Clock.Now().Sub(c.echoAt) > joinTime:
		c.again = true
		return c.begun + 1
	}
	return c.begun
}

// echoLocked notes that this process has received a presence of its own.
func (p *Presence) echoLocked(id string) {
	c, now := &p.check, p.Clock.Now()
	i := slices.IndexFunc(c.published, func(one publishedPresence) bool { return one.id == id })
	if i < 0 || !c.underWay() || !c.echoAt.IsZero() {
		return
	}
	took := min(time.Since(c.published[i].at), longestEcho)
	c.published, c.echoAt, c.wait = nil, now, answerTime+2*took
	p.wake.Set()
}

// NewPresence returns a presence with the exported fields of p.
func NewPresence(p Presence) *Presence {
	p.rivals, p.wake, p.logger = map[protocol.Process]time.Time{}, wait.NewSignal(), klog.Background()
	return &p
}

// Use sets the engine that publishes the presence.
func (p *Presence) Use(e *engine.Engine) {
	if p != nil {
		p.engine = e
	}
}

// Started records the time at which the process has started.
func (p *Presence) Started(now time.Time, logger klog.Logger) {
	if p != nil {
		p.Self.Started, p.logger = now.UTC().Round(0), logger
	}
}

// Filters returns the topic filters to subscribe to.
func (p *Presence) Filters() []string {
	if p == nil {
		return nil
	}
	return []string{p.Profile.PresenceFilter(p.Header.Source, p.Header.Cluster)}
}

// Refused notes that the broker refuses the presence topic. The process then publishes no presence
// either: some brokers close a connection that publishes to a forbidden topic.
func (p *Presence) Refused(_ string, err error) {
	p.Lock.Lock()
	defer p.Lock.Unlock()
	if p.denied == nil {
		p.logger.Info("Failed to publish the presence: other processes with this ID are not detected",
			"topic", p.Filters()[0], "reason", err)
	}
	p.denied = err
	if p.check.underWay() {
		p.check.echoAt, p.check.wait = p.Clock.Now(), 0
		p.wake.Set()
	}
}

// Connected publishes the presence. It must be called before other events are published.
func (p *Presence) Connected() {
	if p == nil {
		return
	}
	p.Lock.Lock()
	defer p.Lock.Unlock()
	now := p.Clock.Now()
	for rival := range p.rivals { // this process may have been away, and not the rival
		p.rivals[rival] = now
	}
	p.online, p.queued = true, false
	if p.denied == nil {
		p.beginLocked()
	}
}

// Disconnected ends the current check: the connection has ended.
func (p *Presence) Disconnected() {
	if p == nil {
		return
	}
	p.Lock.Lock()
	defer p.Lock.Unlock()
	p.denied, p.queued, p.online = nil, false, false
	p.check = presenceCheck{begun: p.check.ended, ended: p.check.ended}
}

func (p *Presence) publishLocked() {
	p.published = p.Clock.Now()
	if p.denied != nil || p.queued {
		return
	}
	p.queued = true
	p.engine.Enqueue(engine.LaneControl, &presenceEvent{presence: p})
}

// ReceiveLocked handles a presence of a process with this ID, including this process.
func (p *Presence) ReceiveLocked(m *codec.Presence) error {
	if p == nil || m.Source != p.Header.Source || m.Cluster != p.Header.Cluster {
		return Unusable(RefusedUnexpected, "the presence has another ID")
	}
	now := p.Clock.Now()
	if m.Session == p.Self.Session {
		p.echoLocked(m.ID)
		return nil
	}
	rival := protocol.Process{Started: m.Started, Session: m.Session}
	if !rival.Credible(now) {
		return Unusable(RefusedVersion, "process %s has a start time too far ahead of the clock: %s",
			m.Session, m.Started.Format(time.RFC3339))
	}
	_, known := p.rivals[rival]
	switch {
	case m.Leaving && known:
		p.forgetLocked(rival, "it ended")
		p.Changed()
	case m.Leaving:
	case known:
		p.rivals[rival] = now
	case p.roomLocked(rival):
		p.rivals[rival] = now
		p.logger.Info("Detected another process with the same ID", "session", rival.Session, "started", rival.Started,
			"newer", p.Self.Before(rival))
		p.publishLocked()
		p.Changed()
		p.wake.Set()
	}
	return nil
}

// roomLocked makes room for one more rival, and reports whether the rival may be added. The newest
// rivals stay, because they outrank this process.
func (p *Presence) roomLocked(rival protocol.Process) bool {
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

func (p *Presence) forgetLocked(rival protocol.Process, reason string) {
	delete(p.rivals, rival)
	p.logger.Info("Lost another process with the same ID", "session", rival.Session, "reason", reason)
}

// NewestLocked returns the newest rival, and whether there is one.
func (p *Presence) NewestLocked() (newest protocol.Process, found bool) {
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

// OutrankedLocked reports whether a newer process with this ID is known.
func (p *Presence) OutrankedLocked() bool {
	newest, found := p.NewestLocked()
	return found && p.Self.Before(newest)
}

// WorksLocked reports whether rivals can be detected: the broker does not refuse the topic.
func (p *Presence) WorksLocked() bool { return p != nil && p.denied == nil }

// EndedLocked returns the number of the last check that has ended.
func (p *Presence) EndedLocked() uint64 { return p.check.ended }

// DescribeLocked returns an error that names the newest rival, or nil without a rival.
func (p *Presence) DescribeLocked(newer, older string) error {
	newest, found := p.NewestLocked()
	if !found {
		return nil
	}
	age, effect := "an older", older
	if p.Self.Before(newest) {
		age, effect = "a newer", newer
	}
	return fmt.Errorf("%s process with the same ID is connected (session %s, started %s): %s",
		age, newest.Session, newest.Started.Format(time.RFC3339), effect)
}

// run publishes the presence and forgets silent rivals until ctx ends.
func (p *Presence) run(ctx context.Context) {
	if p == nil {
		return
	}
	for ctx.Err() == nil {
		var due <-chan time.Time
		stop := func() bool { return true }
		if wait := p.tick(); wait > 0 {
			timer := p.Clock.NewTimer(wait)
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

// tick performs the due actions and returns the time until the next is due; 0 is never.
func (p *Presence) tick() time.Duration {
	p.Lock.Lock()
	defer p.Lock.Unlock()
	if !p.online {
		return 0
	}
	var next time.Time
	now, changed := p.Clock.Now(), false
	for rival, last := range p.rivals {
		end := last.Add(rivalTimeout)
		if IsDue(end, now, rivalTimeout) {
			p.forgetLocked(rival, "it is silent")
			changed = true
			continue
		}
		next = Earliest(next, end)
	}
	due, ended := p.endCheckLocked(now)
	next = Earliest(next, due)
	interval := p.Interval
	switch {
	case len(p.rivals) > 0, p.check.underWay() && !p.deaf(now):
		interval = rivalInterval
	case p.check.underWay():
		interval = SourceInterval
	}
	if interval > 0 {
		if IsDue(p.published.Add(interval), now, interval) {
			p.publishLocked()
		}
		next = Earliest(next, p.published.Add(interval))
	}
	if changed {
		p.Changed()
	}
	if ended && p.Checked != nil {
		p.Checked()
	}
	if next.IsZero() {
		return 0
	}
	return max(next.Sub(now), time.Millisecond)
}

// endCheckLocked ends the current check if it is due. Otherwise it returns when to end it, if that
// is known.
func (p *Presence) endCheckLocked(now time.Time) (due time.Time, ended bool) {
	c := &p.check
	switch {
	case !c.underWay(), c.echoAt.IsZero():
		return due, false
	case now.Before(c.echoAt): // the clock was set back
		p.beginLocked()
		return due, false
	case now.Sub(c.echoAt) < c.wait:
		return c.echoAt.Add(c.wait), false
	}
	c.ended = c.begun
	if c.again {
		p.beginLocked()
	}
	return due, true
}

// deaf reports whether the check has received no presence of this process for longer than echoTime.
func (p *Presence) deaf(now time.Time) bool {
	c := &p.check
	if !c.echoAt.IsZero() || now.Sub(c.beganAt) <= echoTime {
		return false
	}
	if !c.reported {
		c.reported = true
		p.logger.Info("Failed to receive the own presence: other processes with this ID are not detected; "+
			"allow the user to read the topic", "topic", p.Filters()[0])
	}
	return true
}

// leave publishes that this process ends, after all queued works. It locks the mutex itself.
func (p *Presence) leave() {
	if p == nil || !p.engine.Connected() {
		return
	}
	p.Lock.Lock()
	defer p.Lock.Unlock()
	if p.denied == nil {
		p.engine.Enqueue(engine.LaneLive, &presenceEvent{presence: p, leaving: true})
	}
}

// presenceEvent is the presence as an item of the outbox.
type presenceEvent struct {
	presence *Presence
	leaving  bool
}

func (e *presenceEvent) Message() (cloudevents.Message, error) {
	p := e.presence
	p.Lock.Lock()
	if !e.leaving {
		p.queued = false
	}
	now := p.Clock.Now()
	m := codec.Presence{Header: p.Header, Session: p.Self.Session, Started: p.Self.Started, Leaving: e.leaving}
	m.ID, m.Time = p.IDs.Next(), now.UTC()
	if c := &p.check; c.underWay() && c.echoAt.IsZero() {
		c.published = append(c.published[max(0, len(c.published)-maxPublished+1):], publishedPresence{m.ID, time.Now()})
	}
	p.Lock.Unlock()
	return Encode(p.Profile, &m)
}

func (e *presenceEvent) Settled(err error) {
	if err != nil && !errors.Is(err, cloudevents.ErrConnectionLost) {
		e.presence.Refused("", err)
	}
}

// CountLocked returns the number of rivals.
func (p *Presence) CountLocked() int { return len(p.rivals) }
