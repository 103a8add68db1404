// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/codec"
)

// syncState follows the answers to the lists that were sent since the last connection.
type syncState struct {
	resyncID string                 // of the list that all sources got
	began    time.Time              // of the connection
	answers  map[string]*syncAnswer // by source
}

// syncAnswer is the answer of one source, to the list that it got last.
type syncAnswer struct {
	resyncID string
	received map[string]struct{} // by the IDs of its events, of which some may come twice; nil once it is complete
	expected int                 // events; -1 before the end marker
	done     bool
	progress time.Time // of the list, or of the last event of the answer
	tries    int       // lists since the last progress
	timed    int       // the resync that it was complete in, for the metrics
	account  *account  // of the source; nil until received has an ID
	charged  int64     // what received is charged
}

func newSyncAnswer(resyncID string, now time.Time) *syncAnswer {
	return &syncAnswer{resyncID: resyncID, received: map[string]struct{}{}, expected: -1, progress: now}
}

// got records an event of the answer. Without room for it in the account, the answer stays incomplete.
func (a *syncAnswer) got(id string, of *account) {
	if _, known := a.received[id]; known || a.done || !of.charge(askSize(id)) {
		return
	}
	a.account = of
	a.charged += askSize(id)
	a.received[id] = struct{}{}
}

// release forgets the events of the answer.
func (a *syncAnswer) release() {
	if a == nil || a.account == nil {
		return
	}
	a.received, a.charged = nil, a.account.set(a.charged, 0)
}

// complete reports whether the end marker and all events before it have come.
func (a *syncAnswer) complete() bool {
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
func (a *syncAnswer) partial() bool { return !a.complete() && (a.expected >= 0 || len(a.received) > 0) }

// mostTries is how often an answer of which a part is missing is asked for again without progress, where it need not be
// waited for.
const mostTries = 3

// enough reports whether an answer that need not be waited for is not asked for again. One that has
// no end may have lost it, or its source does not know all its works yet: it is asked for once.
func (a *syncAnswer) enough() bool {
	return !a.partial() || a.tries >= mostTries || a.expected < 0 && a.tries > 0
}

// slowestTry is the longest time between two lists to a source that does not answer.
const slowestTry = time.Minute

// beginSyncLocked expects answers to the list that a connection begins with.
func (a *Agent) beginSyncLocked(resyncID string) {
	now := a.options.Clock.Now()
	for _, answer := range a.sync.answers {
		answer.release()
	}
	a.sync = syncState{resyncID: resyncID, began: now, answers: map[string]*syncAnswer{}}
	for _, name := range a.options.Sources {
		a.sync.answers[name] = newSyncAnswer(resyncID, now)
	}
	a.startDigestsLocked()
	a.wakeLocked(now)
}

// startSync lets the quiet time of the initial sync begin: from now on the broker has the lists.
func (a *Agent) startSync() {
	a.cache.Lock()
	defer a.cache.Unlock()
	now := a.options.Clock.Now()
	a.sync.began = now
	for _, answer := range a.sync.answers {
		answer.progress = now
	}
}

// asked reports whether the broker has taken the lists of this connection.
func (a *Agent) asked() bool {
	select {
	case <-a.engine.Ready():
		return a.engine.Refused() == nil
	default:
		return false
	}
}

// answerFrom returns what is known of a source's answer with this resync ID, nil where none is awaited.
func (a *Agent) answerFrom(source, resyncID string) *syncAnswer {
	answer := a.sync.answers[source]
	if answer == nil {
		if a.sources[source] == nil {
			return nil
		}
		answer = newSyncAnswer(a.sync.resyncID, a.options.Clock.Now())
		a.sync.answers[source] = answer
	}
	if resyncID == "" || answer.resyncID != resyncID {
		return nil
	}
	return answer
}

// awaitLocked expects another answer of a source instead of the one before.
func (a *Agent) awaitLocked(source string, answer *syncAnswer) {
	a.sync.answers[source].release()
	a.sync.answers[source] = answer
}

// progressLocked notes an event of a source, or the end of its answer. Only what the agent did not have resets the
// tries: a source sends what was refused, or is asked for, again and again. What is no part of an answer does not
// delay the next list to a source that marks the end of its answers.
func (a *Agent) progressLocked(source, resyncID string, isNew bool) {
	answer := a.sync.answers[source]
	if answer == nil || answer.done && !a.cache.Held() || resyncID == "" && a.endsAnswers(source) {
		return
	}
	answer.progress = a.options.Clock.Now()
	if isNew {
		answer.tries = 0
	}
	if answer.complete() {
		a.metrics.answeredLocked(&answer.timed)
		a.wakeLocked(answer.progress)
	}
}

// endSyncLocked lets lists and watches go on without waiting.
func (a *Agent) endSyncLocked() {
	if a.cache.Held() {
		a.cache.Release()
		close(a.synced)
		a.keepMeta()
	}
}

// quiet is how long nothing must come from a source that does not mark the end of its answers.
func (a *Agent) quiet() time.Duration {
	if a.options.InitialSyncTimeout > 0 {
		return a.options.InitialSyncTimeout
	}
	return DefaultInitialSyncTimeout
}

// pursueLocked asks again for answers of which a part is missing, and ends the initial sync when
// all have come. It returns when it is to be called again.
func (a *Agent) pursueLocked(now time.Time) time.Time {
	var next time.Time
	held, named := a.cache.Held(), len(a.options.Sources) > 0
	if held && !a.asked() {
		return now.Add(a.quiet())
	}
	whole := true
	if begun := a.sync.began.Add(a.quiet()); !named && held && !isDue(begun, now, a.quiet()) {
		next, whole = begun, false
	}
	for name, answer := range a.sync.answers {
		if a.answeredLocked(name, answer, now) {
			if held && named && a.lacksLocked(name) {
				whole = false
			}
			continue
		}
		must := held && named && a.serves(name) && !slices.Contains(a.covered, name)
		due := answer.progress.Add(min(a.quiet()<<min(answer.tries, 10), slowestTry))
		switch {
		case !a.endsAnswers(name): // quiet is what it is waited for
			due = answer.progress.Add(a.quiet())
		case !must && answer.enough():
			if due = answer.progress.Add(a.quiet()); isDue(due, now, a.quiet()) {
				continue // no more is waited for
			}
		case !isDue(due, now, max(a.quiet(), slowestTry)):
		default:
			if due = a.askAgainLocked(name, answer, now); must && answer.tries+1 == mostTries {
				a.logger.Info("Lists wait for a source that is away or has not called InventoryComplete", "source", name)
			}
		}
		whole = false
		next = earliestOf(next, due)
	}
	if held && a.options.PartialSyncTimeout > 0 {
		limit := a.sync.began.Add(a.options.PartialSyncTimeout)
		if isDue(limit, now, a.options.PartialSyncTimeout) && !whole {
			missing, refused := a.missingLocked(now)
			a.logger.Info("Lists go on although works of sources are missing", "noAnswer", missing, "noRoom", refused)
			whole = true
		}
		next = earliestOf(next, limit)
	}
	if !held {
		return next
	}
	if whole {
		a.endSyncLocked()
		return time.Time{}
	}
	return next
}

func earliestOf(a, b time.Time) time.Time {
	if a.IsZero() {
		return b
	}
	return earliest(a, b)
}

// endsAnswers reports whether a source marks the end of its answers.
func (a *Agent) endsAnswers(name string) bool {
	s := a.sources[name]
	return !a.traits.Strict && (s == nil || s.modern || !s.strict)
}

// answeredLocked reports whether the answer of a source is whole.
func (a *Agent) answeredLocked(name string, answer *syncAnswer, now time.Time) bool {
	return answer.complete() || !a.endsAnswers(name) && isDue(answer.progress.Add(a.quiet()), now, a.quiet())
}

// askAgainLocked sends a source the list of its works once more: it answers with those that are missing.
func (a *Agent) askAgainLocked(name string, old *syncAnswer, now time.Time) (due time.Time) {
	answer := newSyncAnswer(uuid.NewString(), now)
	answer.tries, answer.timed = old.tries+1, old.timed
	a.awaitLocked(name, answer)
	r := &codec.SpecResync{Header: codec.Header{Source: name, ResyncID: answer.resyncID}, TargetSource: name}
	if s := a.sources[name]; s != nil {
		r.Entries = s.entries(nil, codec.Part{})
	}
	a.sendList(cloudevents.Bulk, r)
	return now.Add(min(a.quiet()<<min(answer.tries, 10), slowestTry))
}

// lacksLocked reports whether a source has works that are in no list because there was no room for
// them: a controller that deletes what a list does not have would delete their workloads.
func (a *Agent) lacksLocked(source string) bool {
	if s := a.sources[source]; s != nil && a.serves(source) {
		for w := range s.refused {
			if w.Object == nil {
				return true
			}
		}
	}
	return false
}

// missingLocked returns the sources whose answers are not whole, and those for whose works there is no room.
func (a *Agent) missingLocked(now time.Time) (missing, refused []string) {
	for _, name := range a.options.Sources {
		if answer := a.sync.answers[name]; slices.Contains(a.covered, name) {
			continue
		} else if answer == nil || !a.answeredLocked(name, answer, now) {
			missing = append(missing, name)
		} else if a.lacksLocked(name) {
			refused = append(refused, name)
		}
	}
	for name, answer := range a.sync.answers {
		if len(a.options.Sources) == 0 && answer.partial() {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	slices.Sort(refused)
	return missing, refused
}

// waitSynced waits for the end of the initial sync. Start may be on its way in another goroutine, but an agent
// that nobody starts is not waited for.
func (a *Agent) waitSynced(ctx context.Context) error {
	select {
	case <-a.synced:
		return nil // also when it has stopped since
	default:
	}
	var late <-chan time.Time
	a.cache.Lock()
	if !a.started && a.cache.Held() {
		timer := a.options.Clock.NewTimer(a.quiet())
		defer timer.Stop()
		late = timer.C()
	}
	a.cache.Unlock()
	for {
		select {
		case <-a.synced:
			return nil
		case <-a.stopped:
			return errStopped
		case <-ctx.Done():
			return a.notSynced(ctx.Err())
		case <-late:
			a.cache.Lock()
			started := a.started
			a.cache.Unlock()
			if !started {
				return apierrors.NewServiceUnavailable("the agent is not started, so it has received no works")
			}
			late = nil
		}
	}
}

// notSynced returns the error of a call whose context ended before the initial sync.
func (a *Agent) notSynced(cause error) error {
	return clientset.Timeout(a.syncProblem()+": "+cause.Error(), 1, cause)
}

// syncProblem tells why the initial sync has not ended.
func (a *Agent) syncProblem() string {
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
