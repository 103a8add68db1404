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

// Remembered returns how many sources, works (tombstones included) and entries in the order of
// tombstones an agent keeps.
func Remembered(a *Agent) (sources, works, places int) {
	a.cache.Lock()
	defer a.cache.Unlock()
	for _, s := range a.sources {
		works += len(s.works)
	}
	return len(a.sources), works, len(a.tombstones)
}

// SetMaxInbox sets the limit of queued events that a replica keeps for the leader, in bytes.
func SetMaxInbox(s *Source, n int) {
	s.cache.Lock()
	defer s.cache.Unlock()
	s.replica.most = n
}

// Orphans returns the number of works of a source that belong to a cluster which the source no
// longer has.
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

// KeptRecords returns the records that the Store of a source must have now, by key.
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

// KeptRecords returns the records that the Store of an agent must have now, by key.
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

// Records returns the records that the journal would encode now. The journal encodes them without
// the mutex, and so maybe later.
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

// RememberedBySource returns how many works, tombstones, incomplete lists and entries in the order
// of tombstones a source keeps.
func RememberedBySource(s *Source) (works, tombstones, lists, places int) {
	s.cache.Lock()
	defer s.cache.Unlock()
	for _, c := range s.clusters {
		tombstones += len(c.tombstones)
		lists += len(c.lists)
	}
	return len(s.works), tombstones, lists, s.tombstones.Len()
}

// Record is the state of a work that the clientset does not show.
type Record struct {
	UID     string // the incarnation
	Version int64
	// Leaving is whether the work is deleted. For an agent, it is whether the work is being deleted
	// or is a tombstone.
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

// Rivals returns how many other processes with its ID a source remembers.
func Rivals(s *Source) int {
	s.cache.Lock()
	defer s.cache.Unlock()
	return len(s.presence.rivals)
}

// RequestQueue is a requestQueue with a budget of its own. Refused counts the dropped requests.
type RequestQueue struct {
	*requestQueue
	Refused int
}

func NewRequestQueue(bytes int64, handle func(cloudevents.Message)) *RequestQueue {
	r := &RequestQueue{}
	r.requestQueue = newRequestQueue(&budget{perPeer: bytes, total: bytes}, handle, func(cloudevents.Message, error) { r.Refused++ })
	return r
}

// Add queues a request. Drop removes all requests. Used returns the charge for queued requests.
func (r *RequestQueue) Add(m cloudevents.Message) { r.add(m) }
func (r *RequestQueue) Drop()                     { r.drop() }
func (r *RequestQueue) Used() int64 {
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	return r.budget.used
}

// BudgetOf returns how many bytes a source counts for its clusters.
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

// BudgetOfNothing returns how many bytes an agent without works counts, except for the records of
// sources.
func BudgetOfNothing(a *Agent) int64 {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.budget.used - a.names.used
}

// CountedOf returns how many bytes an agent counts for the works of a source, and their current
// size.
func CountedOf(a *Agent, source string) (counted, again int64) {
	a.cache.Lock()
	defer a.cache.Unlock()
	for _, w := range a.sourceLocked(source).works {
		counted += w.charged
		again += w.size()
	}
	return counted, again
}

// CheckBudget returns an error if the bytes that an agent counts are not the sum of the records of
// its sources. No request may be queued.
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

// HeldOf returns the names of the works that an agent has from a source, refused works included.
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

// ResyncOf returns the resync ID of the last list that an agent has sent to all sources.
func ResyncOf(a *Agent) string {
	a.cache.Lock()
	defer a.cache.Unlock()
	return a.sync.resyncID
}

// SessionOf returns the session of an agent. Sources repeat it in answers and new works.
func SessionOf(a *Agent) string { return a.session }

// RefusedStatuses returns the number of refused statuses that a source must request again.
func RefusedStatuses(s *Source) (n int) {
	s.cache.Lock()
	defer s.cache.Unlock()
	for _, c := range s.clusters {
		n += len(c.delivery.refused)
	}
	return n
}

// ComparesAtOnce is the number of lists in a row that a source compares.
const ComparesAtOnce = comparesAtOnce

// SpecError and StatusError return the error of an invalid spec or status of a peer.
func SpecError(spec *workv1.ManifestWorkSpec) error {
	return clientset.Brief(clientset.SpecErrors(spec))
}

func StatusError(status *workv1.ManifestWorkStatus) error {
	return clientset.Brief(clientset.StatusErrors(status))
}
