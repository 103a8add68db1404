// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
)

// Remembered is how many sources, works (those that are gone included) and places in the order of the gone an
// agent keeps.
func Remembered(a *Agent) (sources, works, places int) {
	a.cache.Lock()
	defer a.cache.Unlock()
	for _, s := range a.sources {
		works += len(s.works)
	}
	return len(a.sources), works, len(a.tombstones)
}

// SetMaxInbox sets how many bytes of events of a replica may wait for the writer.
func SetMaxInbox(s *Source, n int) {
	s.cache.Lock()
	defer s.cache.Unlock()
	s.replica.most = n
}

// Orphans is how many works a source has of clusters that it does not know.
func Orphans(s *Source) (n int) {
	s.cache.Lock()
	defer s.cache.Unlock()
	for _, w := range s.works {
		if s.clusters[w.cluster.name] != w.cluster {
			n++
		}
	}
	return n
}

// KeptRecords returns what the Store of a source or an agent must hold now, by key.
func (s *Source) KeptRecords() map[string]string {
	s.cache.Lock()
	defer s.cache.Unlock()
	out := map[string]string{journal.KeyMeta: encodeKept((*sourceMeta)(s))}
	for _, c := range s.clusters {
		if c.Content() != nil {
			out[journal.PrefixCluster+c.name] = encodeKept(c)
		}
		for id, r := range c.reported.byID {
			if r.past {
				out[journal.PastKey(c.name, id)] = encodeKept(pastWork{c, id})
			}
		}
	}
	for _, f := range s.forgotten.byName {
		out[journal.PrefixCluster+f.name] = encodeKept(f)
	}
	for _, w := range s.works {
		out[journal.WorkKey(w.cluster.name, w.id)] = encodeKept(w)
	}
	return out
}

// KeptRecords is as that of a source.
func (a *Agent) KeptRecords() map[string]string {
	a.cache.Lock()
	defer a.cache.Unlock()
	out := map[string]string{journal.KeyMeta: encodeKept((*agentMeta)(a))}
	for _, s := range a.sources {
		for _, w := range s.works {
			out[journal.WorkKey(s.name, w.id)] = encodeKept(w)
		}
	}
	return out
}

// Records returns what the journal would encode now, outside the lock and so maybe later.
func (a *Agent) Records() (records []any) {
	a.cache.Lock()
	defer a.cache.Unlock()
	for _, s := range a.sources {
		for _, w := range s.works {
			records = append(records, w.Content())
		}
	}
	return records
}

func encodeKept(k journal.Record) string {
	value, err := journal.Encode(k.Content())
	if err != nil {
		panic(err)
	}
	return string(value)
}

// RememberedBySource is how many works, tombstones, lists under way and places in the order of tombstones a source
// keeps.
func RememberedBySource(s *Source) (works, tombstones, lists, places int) {
	s.cache.Lock()
	defer s.cache.Unlock()
	for _, c := range s.clusters {
		tombstones += len(c.tombstones)
		lists += len(c.lists)
	}
	return len(s.works), tombstones, lists, s.tombstones.Len()
}

// Record is what one side knows of a work, beside what its clientset shows.
type Record struct {
	UID     string // the incarnation
	Version int64
	// Leaving is whether the work is deleted, or was: at an agent it is being deleted or a tombstone.
	Leaving, Tombstone bool
}

// AgentRecords returns an agent's records by resource ID.
func AgentRecords(a *Agent) map[string]Record {
	a.cache.Lock()
	defer a.cache.Unlock()
	out := map[string]Record{}
	for _, s := range a.sources {
		for _, w := range s.works {
			out[w.id] = Record{
				UID: string(w.uid), Version: w.version,
				Leaving: w.state != protocol.Held, Tombstone: w.state == protocol.Tombstone,
			}
		}
	}
	return out
}

// SourceRecords returns a source's records by resource ID.
func SourceRecords(s *Source) map[string]Record {
	s.cache.Lock()
	defer s.cache.Unlock()
	out := map[string]Record{}
	for _, w := range s.works {
		out[w.id] = Record{UID: string(w.uid), Version: w.version, Leaving: w.deleting}
	}
	return out
}

// Rivals is how many other processes with its ID a source remembers.
func Rivals(s *Source) int {
	s.cache.Lock()
	defer s.cache.Unlock()
	return len(s.presence.rivals)
}

// RequestQueue handles requests apart from news. Refused counts those that were dropped.
type RequestQueue struct {
	*requestQueue
	Refused int
}

func NewRequestQueue(bytes int64, handle func(cloudevents.Message)) *RequestQueue {
	r := &RequestQueue{}
	r.requestQueue = newRequestQueue(&budget{perPeer: bytes, total: bytes}, handle, func(cloudevents.Message, error) { r.Refused++ })
	return r
}

// Add takes a request, Drop forgets all. Used is what those that wait are charged.
func (r *RequestQueue) Add(m cloudevents.Message) { r.add(m) }
func (r *RequestQueue) Drop()                     { r.drop() }
func (r *RequestQueue) Used() int64 {
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	return r.budget.used
}

// BudgetOf is what a source counts for its clusters.
func BudgetOf(s *Source) int64 {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.budget.used
}

// BudgetOfAgent returns how many bytes an agent counts for its sources.
func BudgetOfAgent(a *Agent) int64 {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.budget.used
}

// BudgetOfNothing returns how many bytes an agent without works counts, except for the names of sources.
func BudgetOfNothing(a *Agent) int64 {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.budget.used - a.names.used
}

// CountedOf returns how many bytes an agent counts for the works of a source, and how many it would count again.
func CountedOf(a *Agent, source string) (counted, again int64) {
	a.cache.Lock()
	defer a.cache.Unlock()
	for _, w := range a.sourceLocked(source).works {
		counted += w.charged
		again += w.size()
	}
	return counted, again
}

// CheckBudget returns an error where what an agent counts is not the sum of what its sources make
// it keep. Nothing may be queued.
func CheckBudget(a *Agent) error {
	a.cache.Lock()
	defer a.cache.Unlock()
	total, refusals := int64(0), 0
	for name, s := range a.sources {
		refusals += len(s.refused)
		used, refused := s.asked, 0
		for _, w := range s.works {
			used += w.size()
			if w.charged != w.size() {
				return fmt.Errorf("work %s of source %s is charged %d bytes and has %d", w.name, name, w.charged, w.size())
			}
			if w.refused > 0 {
				refused++
			}
		}
		if answer := a.sync.answers[name]; answer != nil {
			used += answer.charged
		}
		if used != s.account.used || refused != len(s.refused) {
			return fmt.Errorf("source %s is charged %d bytes and has %d, and %d of %d refused works are known",
				name, s.account.used, used, len(s.refused), refused)
		}
		total += used + sourceSize(name)
	}
	if refusals != a.refused {
		return fmt.Errorf("%d refused works are counted, the sources have %d", a.refused, refusals)
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	if total != a.budget.used {
		return fmt.Errorf("%d bytes are counted, and the sources have %d", a.budget.used, total)
	}
	return nil
}

// HeldOf returns the names of the works that an agent has of a source, refused ones included.
func HeldOf(a *Agent, source string) (names []string) {
	a.cache.Lock()
	defer a.cache.Unlock()
	for _, w := range a.sourceLocked(source).works {
		if w.state != protocol.Tombstone {
			names = append(names, w.name)
		}
	}
	return names
}

// ResyncOf returns the resync ID of the list that all sources of an agent got last.
func ResyncOf(a *Agent) string {
	a.cache.Lock()
	defer a.cache.Unlock()
	return a.sync.resyncID
}

// SessionOf is what an agent expects of the answers and new works of its sources.
func SessionOf(a *Agent) string { return a.session }

// RefusedStatuses returns how many statuses a source is to request again.
func RefusedStatuses(s *Source) (n int) {
	s.cache.Lock()
	defer s.cache.Unlock()
	for _, c := range s.clusters {
		n += len(c.delivery.refused)
	}
	return n
}

// ComparesAtOnce is how many lists in a row are compared.
const ComparesAtOnce = comparesAtOnce

// SpecError and StatusError return the error of a peer's object.
func SpecError(spec *workv1.ManifestWorkSpec) error {
	return clientset.Brief(clientset.SpecErrors(spec))
}

func StatusError(status *workv1.ManifestWorkStatus) error {
	return clientset.Brief(clientset.StatusErrors(status))
}
