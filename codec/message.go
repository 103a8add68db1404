// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
)

// ConditionDeleted is the type of the condition by which an agent says, with status True, that a work is gone
// from its cluster.
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
	// Time is when the event was made, to the nanosecond and in UTC. Zero: the event carries no time.
	Time time.Time
	// Source is the ID of the source whose works the event is about. It is a level of the topic. Empty
	// only in the [Presence] of an agent and in a [SpecResync] to every source; in one on the topic of all
	// sources that has a target, Decode sets the target.
	Source string
	// Cluster is the name of the cluster that the event is about. It is a level of the topic where the
	// topic has one, else the attribute clustername. Empty only in a [StatusResync] to every cluster
	// and in the [Presence] of a source.
	Cluster string
	// Agent is the ID of the agent that made the event; empty on events that sources make.
	Agent string
	// TraceParent is the W3C trace context, empty for none.
	TraceParent string
	// ResyncID ties the chunks of a resync and the answers to it together; empty for none.
	ResyncID string
}

// Head returns h itself.
func (h *Header) Head() *Header { return h }

// WorkRef names one version of one incarnation of a work.
type WorkRef struct {
	// ResourceID identifies the work among those of its source; see [ResourceID]. Required.
	ResourceID string
	// Version is the protocol's version V of the work: it orders all events about one resource ID,
	// across incarnations. Not negative.
	Version int64
	// UID is the incarnation: the UID that the source's API object has. Empty from strict peers.
	UID types.UID
	// Name is the work's name. Decode sets it to ResourceID where the event does not carry it. With a UID
	// it is required in a [Spec], unless that is a deletion: a source can delete a work that an agent
	// lists without knowing its name.
	Name string
}

// Action is why a [Spec] or a [Status] is sent. Only the event types of [ManifestBundle] say it; no reader in this
// SDK acts on it.
type Action string

// Actions. A message without one is an update, or, if it has a DeletionTimestamp, a deletion.
const (
	ActionCreate Action = "create"
	ActionUpdate Action = "update"
	ActionDelete Action = "delete"
	// ActionAnswer: a resync request asked for it.
	ActionAnswer Action = "answer"
)

// Spec is a source's word on a work: what shall be, or, with DeletionTimestamp, that it shall go.
type Spec struct {
	Header
	WorkRef
	// Action is why the event is sent, for [ManifestBundle].
	Action Action
	// DeletionTimestamp is set when the work is to be deleted; such an event carries no manifests.
	// Whole seconds, UTC.
	DeletionTimestamp *metav1.Time
	// AgentSession is the session of the agent that the source had last heard of when the work was created, or,
	// in answers, of the one that asked.
	AgentSession string
	// StatusSeq is the SequenceID of the last status that the source accepted; 0 for none.
	StatusSeq int64
	// Work holds what the event's data says. Encode reads labels, annotations, owner references,
	// generation, creationTimestamp and the spec; it does not change the object. Decode sets those and
	// name and namespace (the cluster). Finalizers, UID and resourceVersion do not travel, but finalizers do
	// with [ManifestBundle].
	Work *workv1.ManifestWork
}

// Status is an agent's word on a work.
type Status struct {
	Header
	WorkRef
	// Action is why the event is sent, for [ManifestBundle].
	Action Action
	// SequenceID orders the statuses of one work; 0 from strict peers.
	SequenceID int64
	// Hash is the attribute statushash, empty when the event carries none.
	Hash string
	// Metadata is that of the agent's object. It travels with [ManifestBundle] only.
	Metadata *metav1.ObjectMeta
	// Status is the work's status, nil when the event only acknowledges UID and Version: it has no data,
	// or null. An empty object is an empty status.
	Status *workv1.ManifestWorkStatus
}

// Gone reports whether the status says that the work no longer exists on its cluster: the condition
// Deleted is True.
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

// Scope says what a resync request covers.
type Scope string

const (
	// ScopeAll is a request about all works of the pair: what the entries do not name is missing.
	ScopeAll Scope = ""
	// ScopeListed is a request about the listed works only.
	ScopeListed Scope = "listed"
	// ScopeLists is a status resync that asks agents for their lists only, not for statuses.
	ScopeLists Scope = "lists"
	// ScopeDigest is a status resync to one cluster that asks for a [Digest] with one sum for each bucket of its Part.
	ScopeDigest Scope = "digest"
)

func (s Scope) known() bool {
	return s == ScopeAll || s == ScopeListed || s == ScopeLists || s == ScopeDigest
}

// Chunk is the place of an event among those of one request.
type Chunk struct {
	// Index counts from 0. Count is the number of chunks, 0 in a request that was not split. In the end
	// marker of an answer (a directed [StatusResync] of ScopeListed without entries) Count is the number
	// of events that the answer had.
	Index, Count int
}

// SpecResync is an agent's request for specs: the works it holds and their versions. Without entries it
// asks for everything.
type SpecResync struct {
	Header
	// AgentSession is the session of the asking agent process.
	AgentSession string
	// TargetSource is the source that shall answer; empty for every source. It cannot be another than
	// Source, if that is set; for a request on the topic of all sources Encode takes it from Source.
	TargetSource string
	Scope        Scope
	// Part limits a request of [ScopeAll] to some of the works: only works of the part that the entries do not name are
	// missing. It is the part that the source asked for.
	Part  Part
	Chunk Chunk
	// Broadcast puts the request on the topic that every source reads instead of the directed topic of
	// Source. It is implied when Source is empty.
	Broadcast bool
	Entries   []SpecEntry
}

// SpecEntry is one work in a [SpecResync].
type SpecEntry struct {
	ResourceID string
	Version    int64
	// UID, Source and SequenceID (the last status published) are zero from strict peers.
	UID        types.UID
	Source     string
	SequenceID int64
}

// StatusResync is a source's request for statuses: the works it holds and the hashes of their statuses.
// Without entries, and with ScopeAll, it asks for everything.
type StatusResync struct {
	Header
	Scope Scope
	// Part limits a request of [ScopeLists] to some of the works, and has the number of buckets of
	// one of [ScopeDigest].
	Part  Part
	Chunk Chunk
	// Broadcast puts the request on the topic that every agent reads instead of the directed topic of
	// Cluster. It is implied when Cluster is empty.
	Broadcast bool
	Entries   []StatusEntry
}

// StatusEntry is one work in a [StatusResync].
type StatusEntry struct {
	ResourceID string
	// Hash is the hash of the status that the source holds ([StatusHash]), or the one that came with it;
	// empty when it holds none.
	Hash string
	// UID and StatusSeq (the last status accepted) are zero from strict peers.
	UID       types.UID
	StatusSeq int64
}

// Presence is the message of a process about itself, to other processes with the same ID: that of a
// source, with Header.Source, or that of the agent of a cluster, with Header.Cluster. Only
// processes with that ID subscribe to its topic.
type Presence struct {
	Header
	// Session identifies the process. Required.
	Session string
	// Started is when the process started, to the nanosecond and in UTC. Required.
	Started time.Time
	// Leaving is whether the process is about to end.
	Leaving bool
}
