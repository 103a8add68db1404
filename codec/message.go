// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
)

// ConditionDeleted is the type of the condition by which an agent reports, with status True, that a
// work no longer exists on its cluster.
const ConditionDeleted = "Deleted"

// Message is the content of an event: one of [*Spec], [*Status], [*SpecResync], [*StatusResync],
// [*Digest] and [*Presence].
type Message interface {
	// Head returns the part that all messages share.
	Head() *Header
}

// Header is the part that all messages share.
type Header struct {
	// ID is the CloudEvents id, unique per sender. Required.
	ID string
	// Time is when the event was made, to the nanosecond and in UTC. A zero time is not sent.
	Time time.Time
	// Source is the ID of the source of the works in the event. It is a level of the topic. It is
	// empty only in the [Presence] of an agent and in a [SpecResync] to every source. If a
	// [SpecResync] has a TargetSource, Decode sets Source to the TargetSource.
	Source string
	// Cluster is the name of the cluster that the event is about. It is a level of the topic if the
	// topic has one, otherwise the attribute clustername. It is empty only in a [StatusResync] to
	// every cluster and in the [Presence] of a source.
	Cluster string
	// Agent is the ID of the agent that made the event; empty in events of sources.
	Agent string
	// TraceParent and TraceState are the W3C trace context, empty for none. Decode drops invalid
	// values: see [ValidTrace].
	TraceParent, TraceState string
	// ResyncID links the chunks of a resync and the answers to it; empty for none.
	ResyncID string
}

// Head returns h itself.
func (h *Header) Head() *Header { return h }

// WorkRef identifies one version of one incarnation of a work.
type WorkRef struct {
	// ResourceID identifies the work among the works of its source; see [ResourceID]. Required.
	ResourceID string
	// Version is the protocol's version of the work: it orders all events about one resource ID,
	// across incarnations. Not negative.
	Version int64
	// UID identifies the incarnation: it is the UID of the source's API object. Empty from peers
	// that know only the enhancement.
	UID types.UID
	// Name is the work's name. Decode sets it to ResourceID if the event does not carry it. It is
	// required in a [Spec] with a UID, except in a deletion: a source can delete a listed work without
	// knowing its name.
	Name string
}

// Action is why a [Spec] or a [Status] is sent. Only the event types of [ManifestBundle] carry it;
// no reader in this SDK acts on it.
type Action string

// Actions. A message without an action is an update, or, if it has a DeletionTimestamp, a deletion.
const (
	ActionCreate Action = "create"
	ActionUpdate Action = "update"
	ActionDelete Action = "delete"
	// ActionAnswer is for answers to a resync request.
	ActionAnswer Action = "answer"
)

// Spec is a source's message with the desired state of a work, or, with DeletionTimestamp, its
// deletion.
type Spec struct {
	Header
	WorkRef
	// Action is why the event is sent, for [ManifestBundle].
	Action Action
	// DeletionTimestamp is set if the work must be deleted; such an event carries no manifests.
	// Whole seconds, UTC.
	DeletionTimestamp *metav1.Time
	// AgentSession identifies the agent process that the spec is for. In an answer it is the session
	// of the request. Otherwise it is the session that the source knew when the work was created.
	AgentSession string
	// StatusSeq is the SequenceID of the last status that the source accepted; 0 for none.
	StatusSeq int64
	// Work has the content of the event's data. Encode reads labels, annotations, owner references,
	// generation, creationTimestamp and the spec; it does not change the object. Decode sets the
	// same fields, and name and namespace (the cluster). UID and resourceVersion are not sent;
	// finalizers only with [ManifestBundle]. With ManifestBundle, the object of a deletion has no
	// name if the event does not carry it: OCM deletes unknown works with such events.
	Work *workv1.ManifestWork
}

// Status is an agent's message with the status of a work.
type Status struct {
	Header
	WorkRef
	// Action is why the event is sent, for [ManifestBundle].
	Action Action
	// SequenceID orders the statuses of one work; 0 from peers that know only the
	// enhancement.
	SequenceID int64
	// Hash is the attribute statushash, empty if the event carries none.
	Hash string
	// Metadata is the metadata of the agent's object. Only [ManifestBundle] carries it.
	Metadata *metav1.ObjectMeta
	// Status is the work's status. It is nil if the event only acknowledges UID and Version: its
	// data is missing or null. An empty object is an empty status.
	Status *workv1.ManifestWorkStatus
}

// Gone reports whether the work no longer exists on its cluster: the condition Deleted is True.
func (s *Status) Gone() bool {
	if s == nil || s.Status == nil {
		return false
	}
	for i := range s.Status.Conditions {
		if c := &s.Status.Conditions[i]; c.Type == ConditionDeleted {
			return c.Status == metav1.ConditionTrue
		}
	}
	return false
}

// Scope is the set of works that a resync request covers.
type Scope string

const (
	// ScopeAll is a request about all works of a source on a cluster. If a work has no entry, the
	// requester does not have the work.
	ScopeAll Scope = ""
	// ScopeListed is a request about the listed works only.
	ScopeListed Scope = "listed"
	// ScopeLists is a status resync that requests no statuses, only a [SpecResync] from each agent
	// with the list of its works.
	ScopeLists Scope = "lists"
	// ScopeDigest is a status resync to one cluster that requests a [Digest] with one sum for each
	// bucket of its Part.
	ScopeDigest Scope = "digest"
)

func (s Scope) known() bool {
	return s == ScopeAll || s == ScopeListed || s == ScopeLists || s == ScopeDigest
}

// Chunk is the position of an event among the events of one request.
type Chunk struct {
	// Index counts from 0. Count is the number of chunks, 0 in a request that was not split.
	//
	// A source marks the end of its answer to a [SpecResync] with one more message: a [StatusResync]
	// with ScopeListed and without entries, which requests nothing. Its Count is the number of specs
	// in the answer.
	Index, Count int
}

// SpecResync is an agent's request for specs, with its works and their versions. Without entries it
// requests all specs.
type SpecResync struct {
	Header
	// AgentSession is the session of the agent process that sends the request.
	AgentSession string
	// TargetSource is the source that must answer; empty for every source. If both are set,
	// TargetSource and Source must be equal. If the request is sent on the topic of all sources,
	// Encode copies Source to TargetSource.
	TargetSource string
	Scope        Scope
	// Part limits a request of [ScopeAll] to some of the works. In an answer to a request of
	// [ScopeLists] it is the Part of that request.
	Part  Part
	Chunk Chunk
	// Broadcast sends the request to the topic that every source reads, instead of the directed
	// topic of Source. It is implied when Source is empty.
	Broadcast bool
	Entries   []SpecEntry
}

// SpecEntry is one work in a [SpecResync].
type SpecEntry struct {
	ResourceID string
	Version    int64
	// UID, Source and SequenceID (the last status published) are zero from peers that know only the
	// enhancement.
	UID        types.UID
	Source     string
	SequenceID int64
}

// StatusResync is a source's request for statuses, with its works and the hashes of their statuses.
// Without entries, and with ScopeAll, it requests all statuses.
type StatusResync struct {
	Header
	Scope Scope
	// Part limits a request of [ScopeLists] to some of the works, and has the number of buckets in
	// a request of [ScopeDigest].
	Part  Part
	Chunk Chunk
	// Broadcast sends the request to the topic that every agent reads, instead of the directed
	// topic of Cluster. It is implied when Cluster is empty.
	Broadcast bool
	Entries   []StatusEntry
}

// StatusEntry is one work in a [StatusResync].
type StatusEntry struct {
	ResourceID string
	// Hash is the hash of the status in the source ([StatusHash]), or the hash that was received
	// with it; empty without a status.
	Hash string
	// UID and StatusSeq (the last status accepted) are zero from peers that know only the
	// enhancement.
	UID       types.UID
	StatusSeq int64
}

// Digest is a summary of an agent's works of one source. It is the agent's heartbeat. The source
// detects lost messages with it, at a small part of the cost of a list. Only [ManifestWork] has it.
type Digest struct {
	Header
	// AgentSession is the session of the agent process. Required.
	AgentSession string
	// Works is the number of works in the agent.
	Works int
	// Sums has one sum for each bucket: the sum, modulo 2^64, of the hashes of the bucket's works. A
	// heartbeat has one bucket. An answer to [ScopeDigest] has as many buckets as the request. The
	// number is a power of two from 1 to [MaxBuckets]. Required.
	Sums []uint64
}

// MaxBuckets is the largest number of buckets into which a [Digest] or a [Part] divides works by
// the hashes of their resource IDs.
const MaxBuckets = 256

// Part selects works of a source on a cluster by buckets of their hashed resource IDs. The zero
// Part selects all works.
type Part struct {
	// Buckets is the number of buckets: a power of two, at most [MaxBuckets]. 0 stands for all
	// works.
	Buckets int
	// Listed are the buckets of the part, in ascending order; nil in a request for a [Digest],
	// which covers all buckets.
	Listed []int
}

// IsZero reports whether p selects all works.
func (p Part) IsZero() bool { return p.Buckets == 0 && len(p.Listed) == 0 }

// String returns p in the form of the attribute, such as "8:0,5".
func (p Part) String() string {
	if p.IsZero() {
		return ""
	}
	out := strconv.AppendInt(nil, int64(p.Buckets), 10)
	for i, bucket := range p.Listed {
		separator := byte(',')
		if i == 0 {
			separator = ':'
		}
		out = strconv.AppendInt(append(out, separator), int64(bucket), 10)
	}
	return string(out)
}

// valid returns why p cannot be an attribute, or "".
func (p Part) valid() string {
	switch {
	case p.IsZero():
		return ""
	case !isBuckets(p.Buckets):
		return reasonBuckets
	}
	last := -1
	for _, bucket := range p.Listed {
		if bucket <= last || bucket >= p.Buckets {
			return "lists buckets that are not in ascending order below their number"
		}
		last = bucket
	}
	return ""
}

const reasonBuckets = "is not a power of two from 1 to 256"

func isBuckets(n int) bool { return n >= 1 && n <= MaxBuckets && n&(n-1) == 0 }

// Presence is the message of a process about itself, to other processes with the same ID. A source
// sets Header.Source. The agent of a cluster sets Header.Cluster. Only processes with that ID
// subscribe to its topic.
type Presence struct {
	Header
	// Session identifies the process. Required.
	Session string
	// Started is when the process started, to the nanosecond and in UTC. Required.
	Started time.Time
	// Leaving is whether the process is about to end.
	Leaving bool
}
