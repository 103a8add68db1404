// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/rsync/store"
)

// judge reads every revision of the store. It checks each write of an engine against the record and
// the engines' keys of the revision before.
type judge struct {
	mu       sync.Mutex
	engines  map[string]bool
	records  map[string]recordValue
	writes   int // of records
	statuses int
	claims   int // claims of contexts with an ended owner
	faults   []string
	history  map[string][]written // of each context
}

type recordValue struct {
	Owner, Writer string
	Version       uint64
}

type written struct {
	writer string
	at     time.Time
}

func newJudge(t *testing.T, s store.Store) *judge {
	t.Helper()
	j := &judge{engines: map[string]bool{}, records: map[string]recordValue{}, history: map[string][]written{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for message := range s.Watch(ctx, "/", 1) {
			j.read(message)
		}
		if ctx.Err() == nil {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.fault("the watch of the judge ended")
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return j
}

// fault records a violation. Like all methods without a lock of their own, it is called with j.mu
// held.
func (j *judge) fault(format string, args ...any) {
	j.faults = append(j.faults, fmt.Sprintf(format, args...))
}

// read processes a message of the watch: the events of one or more transactions.
func (j *judge) read(message store.Watched) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if message.Err != nil {
		j.fault("the watch of the judge: %v", message.Err)
		return
	}
	for events := message.Events; len(events) > 0; {
		n := 1
		for n < len(events) && events[n].KV.ModRevision == events[0].KV.ModRevision {
			n++
		}
		j.revision(events[:n])
		events = events[n:]
	}
}

// revision judges one transaction.
func (j *judge) revision(events []store.Event) {
	for _, e := range events {
		id, rest, _ := strings.Cut(strings.TrimPrefix(e.KV.Key, "/context/"), "/")
		switch {
		case strings.HasPrefix(e.KV.Key, "/context/") && rest == "state/":
			j.record(id, e)
		case strings.HasPrefix(e.KV.Key, "/context/") && strings.HasPrefix(rest, "status/"):
			j.statuses++
			if owner := j.records[id].Owner; owner == "" || !j.engines[owner] {
				j.fault("revision %d: a status of %s, whose owner %q is gone", e.KV.ModRevision, id, owner)
			}
		}
	}
	for _, e := range events { // after the other events: a transaction is judged by the revision before
		if name, ok := strings.CutPrefix(e.KV.Key, "/rsync/engine/"); ok {
			j.engines[strings.TrimSuffix(name, "/")] = !e.Deleted
		}
	}
}

func (j *judge) record(id string, e store.Event) {
	var now recordValue
	if e.Deleted || json.Unmarshal(e.KV.Value, &now) != nil {
		j.fault("revision %d: the record of %s is deleted or broken", e.KV.ModRevision, id)
		return
	}
	before, known := j.records[id]
	j.records[id] = now
	if !known {
		return // Create
	}
	j.writes++
	j.history[id] = append(j.history[id], written{now.Writer, time.Now()})
	switch {
	case !j.engines[now.Writer]:
		j.fault("revision %d: %s was written by %q, whose lease is over", e.KV.ModRevision, id, now.Writer)
	case now.Version != before.Version+1:
		j.fault("revision %d: %s has version %d after %d", e.KV.ModRevision, id, now.Version, before.Version)
	case now.Owner != "" && now.Owner != now.Writer:
		j.fault("revision %d: %q made %q the owner of %s", e.KV.ModRevision, now.Writer, now.Owner, id)
	case before.Owner != "" && before.Owner != now.Writer && j.engines[before.Owner]:
		j.fault("revision %d: %q wrote %s, whose owner %q lives", e.KV.ModRevision, now.Writer, id, before.Owner)
	case before.Owner != "" && before.Owner != now.Writer:
		j.claims++
	}
}

// ownedBy returns the contexts that a session of an engine owns.
func (j *judge) ownedBy(engine string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []string
	for id, r := range j.records {
		if strings.HasPrefix(r.Owner, engine+"-") {
			out = append(out, id)
		}
	}
	return out
}

// takenOver returns the time of the first write to a context by another engine, after a given time.
// It reports whether such a write exists.
func (j *judge) takenOver(id, engine string, after time.Time) (time.Time, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range j.history[id] {
		if w.at.After(after) && !strings.HasPrefix(w.writer, engine+"-") {
			return w.at, true
		}
	}
	return time.Time{}, false
}

// verdict fails the test with all violations.
func (j *judge) verdict(t *testing.T) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, f := range j.faults[:min(len(j.faults), 20)] {
		t.Error(f)
	}
	t.Logf("%d writes of records and %d of statuses, %d of them took over from an engine that was gone; %d by a stale owner",
		j.writes, j.statuses, j.claims, len(j.faults))
	if j.writes == 0 || j.claims == 0 {
		t.Error("nothing was written or nothing taken over, so nothing was judged")
	}
}
