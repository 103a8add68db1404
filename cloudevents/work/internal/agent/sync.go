// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/codec"
)

// answers tracks the answers to the lists that were sent since the last connection. The initial
// sync ends when they are complete.
type answers struct {
	*shared
	schedule *schedule
	records  *records

	// The agent's mutex guards the following fields.
	resyncID string    // of the list sent to all sources
	began    time.Time // of the connection
	bySource map[string]*answer
	accepted bool // the broker has accepted the lists of the first connection
}

// answer is the answer of one source to the last list sent to it.
type answer struct {
	resyncID string
	received map[string]struct{} // IDs of its events, since some may arrive twice; nil once it is complete
	expected int                 // events; -1 before the end marker
	done     bool
	delayed  bool          // the log has reported that the source does not answer
	progress time.Time     // time of the list, or of the last event of the answer
	tries    int           // lists since the last progress
	timed    int           // number of the resync in which it was complete, for the metrics
	account  *peer.Account // of the source; nil until received has an ID
	charged  int64         // the charge for received
}

func newAnswer(resyncID string, now time.Time) *answer {
	return &answer{resyncID: resyncID, received: map[string]struct{}{}, expected: -1, progress: now}
}

// got records an event of the answer. Without room for it, the answer stays incomplete.
func (a *answer) got(id string, of *peer.Account) {
	if _, known := a.received[id]; known || a.done || !of.Charge(askSize(id)) {
		return
	}
	a.account = of
	a.charged += askSize(id)
	a.received[id] = struct{}{}
}

// release drops the events of the answer.
func (a *answer) release() {
	if a != nil && a.account != nil {
		a.received, a.charged = nil, a.account.Set(a.charged, 0)
	}
}

// complete reports whether the end marker and all events before it have arrived.
func (a *answer) complete() bool {
	if a == nil {
		return false
	}
	if !a.done && a.expected >= 0 && len(a.received) >= a.expected {
		a.done = true
		a.release()
	}
	return a.done
}

// partial reports whether a part of the answer is known to be missing.
func (a *answer) partial() bool { return !a.complete() && (a.expected >= 0 || len(a.received) > 0) }

// mostTries is how often an incomplete answer is requested again without progress, if lists need
// not wait for it.
const mostTries = 3

// enough reports whether an answer that lists need not wait for is not requested again. An answer
// without an end marker is requested again only once: its source may not have all its works yet.
func (a *answer) enough() bool {
	return !a.partial() || a.tries >= mostTries || a.expected < 0 && a.tries > 0
}

// slowestTry is the longest time between two lists to a source that does not answer.
const slowestTry = time.Minute

// beginLocked expects answers to a list that was sent to all sources.
func (a *answers) beginLocked(resyncID string) {
	now := a.options.Clock.Now()
	for _, answer := range a.bySource {
		answer.release()
	}
	before := a.bySource
	a.resyncID, a.began, a.bySource = resyncID, now, map[string]*answer{}
	for _, name := range a.options.Sources {
		a.bySource[name] = newAnswer(resyncID, now)
		a.bySource[name].delayed = before[name] != nil && before[name].delayed
	}
	a.schedule.wakeLocked(now)
}

// start starts the quiet time of the initial sync: the broker has accepted the lists.
func (a *answers) start() {
	a.cache.Lock()
	defer a.cache.Unlock()
	now := a.options.Clock.Now()
	a.began, a.accepted = now, true
	for _, answer := range a.bySource {
		answer.progress = now
	}
}

// fromLocked returns the record of a source's answer with this resync ID, or nil if no such answer
// is expected.
func (a *answers) fromLocked(source, resyncID string) *answer {
	answer := a.bySource[source]
	if answer == nil && a.records.sources[source] != nil {
		answer = newAnswer(a.resyncID, a.options.Clock.Now())
		a.bySource[source] = answer
	}
	if answer == nil || resyncID == "" || answer.resyncID != resyncID {
		return nil
	}
	return answer
}

// awaitLocked replaces the expected answer of a source.
func (a *answers) awaitLocked(source string, answer *answer) {
	was := a.bySource[source]
	was.release()
	answer.delayed = was != nil && was.delayed
	a.bySource[source] = answer
}

// progressLocked records an event of a source, or the end of its answer. Only new versions reset
// the tries, because refused specs are sent or requested again and again. If a source marks the end
// of its answers, only events of an answer delay the next list to it.
func (a *answers) progressLocked(source, resyncID string, isNew bool) {
	answer := a.bySource[source]
	if answer == nil || answer.done && !a.cache.Held() || resyncID == "" && a.endsAnswersLocked(source) {
		return
	}
	answer.progress = a.options.Clock.Now()
	if isNew {
		answer.tries = 0
	}
	if answer.complete() {
		a.metrics.AnsweredLocked(&answer.timed)
		a.schedule.wakeLocked(answer.progress)
	}
}

// forgetUnusedLocked drops the records of sources that never had a work here.
func (a *answers) forgetUnusedLocked() {
	if a.cache.Held() {
		return
	}
	for name, s := range a.records.sources {
		if !s.used && len(s.ask) == 0 && !slices.Contains(a.options.Sources, name) {
			a.bySource[name].release()
			delete(a.bySource, name)
			delete(a.records.sources, name)
			a.records.names.Set(peer.SourceSize(name), 0)
		}
	}
}

// pursueLocked requests incomplete answers again, and ends the initial sync when all answers are
// complete. It returns the time of the next call.
func (a *answers) pursueLocked(now time.Time) time.Time {
	var next time.Time
	held, named := a.cache.Held(), len(a.options.Sources) > 0
	if held && (!a.accepted || a.engine.Refused() != nil) {
		return now.Add(a.options.QuietTime)
	}
	whole := true
	if begun := a.began.Add(a.options.QuietTime); !named && held && !peer.IsDue(begun, now, a.options.QuietTime) {
		next, whole = begun, false
	}
	for name, answer := range a.bySource {
		if a.answeredLocked(name, answer, now) {
			if answer.delayed {
				answer.delayed = false
				a.logger.Info("Received delayed lists", "source", name)
			}
			if held && named && a.lacksLocked(name) {
				whole = false
			}
			continue
		}
		must := held && named && a.serves(name) && !slices.Contains(a.records.covered, name)
		due := a.nextTry(answer)
		switch {
		case !a.endsAnswersLocked(name): // the agent waits until the source is quiet
			due = answer.progress.Add(a.options.QuietTime)
		case !must && answer.enough():
			if due = answer.progress.Add(a.options.QuietTime); peer.IsDue(due, now, a.options.QuietTime) {
				continue // the agent does not wait any longer
			}
		case !peer.IsDue(due, now, max(a.options.QuietTime, slowestTry)):
		default:
			if due = a.askAgainLocked(name, answer, now); must && answer.tries+1 == mostTries && !answer.delayed {
				a.bySource[name].delayed = true
				a.logger.Info("Delayed lists: no source of this ID answers: the ID is wrong, or the source is offline, or it has "+
					"not called InventoryComplete", "source", name)
			}
		}
		whole = false
		next = peer.Earliest(next, due)
	}
	if held && a.options.PartialSyncTimeout > 0 {
		limit := a.began.Add(a.options.PartialSyncTimeout)
		if peer.IsDue(limit, now, a.options.PartialSyncTimeout) && !whole {
			missing, refused := a.missingLocked(now)
			a.logger.Info("Ended the initial sync although works of sources are missing", "noAnswer", missing, "noRoom", refused)
			whole = true
		}
		next = peer.Earliest(next, limit)
	}
	if held && whole {
		a.records.endSyncLocked()
		return time.Time{}
	}
	return next
}

// endsAnswersLocked reports whether a source marks the end of its answers.
func (a *answers) endsAnswersLocked(name string) bool {
	s := a.records.sources[name]
	return !a.traits.Bundle && (s == nil || s.dialect != peer.DialectEnhancement)
}

func (a *answers) answeredLocked(name string, answer *answer, now time.Time) bool {
	return answer.complete() || !a.endsAnswersLocked(name) &&
		peer.IsDue(answer.progress.Add(a.options.QuietTime), now, a.options.QuietTime)
}

// askAgainLocked sends a source the list of its works again, and returns when to repeat that.
func (a *answers) askAgainLocked(name string, old *answer, now time.Time) (due time.Time) {
	answer := newAnswer(uuid.NewString(), now)
	answer.tries, answer.timed = old.tries+1, old.timed
	a.awaitLocked(name, answer)
	s := a.records.sources[name]
	if s == nil {
		s = a.records.unrecorded(name)
	}
	s.sendList(engine.LaneBulk, &codec.SpecResync{
		Header: codec.Header{ResyncID: answer.resyncID}, Entries: s.entriesLocked(nil, codec.Part{}),
	})
	return a.nextTry(answer)
}

// nextTry returns when to send the list again to a source with an incomplete answer.
func (a *answers) nextTry(of *answer) time.Time {
	return of.progress.Add(min(a.options.QuietTime<<min(of.tries, 10), slowestTry))
}

// lacksLocked reports whether a source has works that lists lack because there was no room for
// them. A controller that deletes unlisted works would delete their workloads.
func (a *answers) lacksLocked(source string) bool {
	if s := a.records.sources[source]; s != nil && a.serves(source) {
		for w := range s.refused {
			if w.Object == nil {
				return true
			}
		}
	}
	return false
}

// missingLocked returns the sources with incomplete answers, and the sources with works that have
// no room.
func (a *answers) missingLocked(now time.Time) (missing, refused []string) {
	for _, name := range a.options.Sources {
		if answer := a.bySource[name]; slices.Contains(a.records.covered, name) {
			continue
		} else if answer == nil || !a.answeredLocked(name, answer, now) {
			missing = append(missing, name)
		} else if a.lacksLocked(name) {
			refused = append(refused, name)
		}
	}
	for name, answer := range a.bySource {
		if len(a.options.Sources) == 0 && answer.partial() {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	slices.Sort(refused)
	return missing, refused
}

// problem returns the reason why the initial sync has not ended.
func (a *answers) problem() string {
	a.cache.Lock()
	defer a.cache.Unlock()
	problem := "the initial sync has not ended"
	missing, refused := a.missingLocked(a.options.Clock.Now())
	if len(missing) > 0 {
		problem += ": waiting for the works of the sources " + strings.Join(missing, ", ") +
			", which are not connected or have not called InventoryComplete"
	}
	if len(refused) > 0 {
		problem += ": MaxSourceBytes or MaxBytes is too small for the works of the sources " + strings.Join(refused, ", ")
	}
	return problem
}
