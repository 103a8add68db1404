// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// Observe selects how engines follow contexts in the state Instantiated, between events.
type Observe int

// The values of Observe. Each includes the one before it.
const (
	// ObserveNothing reads from clusters only during events.
	ObserveNothing Observe = iota
	// ObserveStatus reports the number of ready objects of each app on each cluster.
	ObserveStatus
	// ObserveDrift also reports objects that differ from their manifests. It requires that the
	// connector is a [connector.Differ].
	ObserveDrift
	// ObserveHeal also queues a [Heal] when it finds such objects.
	ObserveHeal
)

// Observation is the state of an app on a cluster since the last event of its context: see
// [Options].Observe. It includes no hooks except crd-install hooks.
type Observation struct {
	App     string               `json:"app"`
	Cluster appcontext.ClusterID `json:"cluster"`
	// Time is when the app was first observed in this state. An Observation is written only when it
	// changes, at most once a second.
	Time time.Time `json:"time"`
	// Objects is the number of objects, and Ready how many of them are ready.
	Objects int `json:"objects"`
	Ready   int `json:"ready"`
	// NotReady are the first 20 objects that are not ready.
	NotReady []connector.State `json:"notReady,omitempty"`
	// Compared is whether all objects were compared with their manifests.
	Compared bool `json:"compared,omitempty"`
	// Drifted is the number of objects that differ from their manifests. Drift has the first 20 of
	// them, with 8 KiB of their fields. In each [connector.FieldChange], Before is the value on the
	// cluster and After the value in the manifest. An object that does not exist is a
	// ChangeKindCreate. No Heal applies a ChangeKindRefused, because the cluster would reject the
	// manifest: Message has the reason. With connector/kube, a field that another field manager owns
	// is a ChangeKindRefused unless kube.Options.Force is set.
	Drifted int                `json:"drifted,omitempty"`
	Drift   []connector.Change `json:"drift,omitempty"`
	// Heals counts the Heals for the drift. Drift that appears more than an hour after the last
	// Heal starts a new count. Healed is when the last Heal was queued.
	Heals  int       `json:"heals,omitempty"`
	Healed time.Time `json:"healed,omitzero"`
	// Reason is empty, ReasonContested, or the reason why the cluster could not be read:
	// ReasonUnreachable, ReasonRefusedForNow or ReasonRefused. If it could not be read, the fields
	// above are those of the last read. Message is the cause.
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Limits of a stored observation.
const (
	maxObserved       = 20
	maxObservedFields = 8 << 10
	maxObservedText   = 200
)

// observed is the stored form of an Observation.
type observed struct {
	Observation
	// Transitions is the value of the record at the time of the read. The observation is invalid
	// when the record has a later value.
	Transitions uint64 `json:"transitions"`
	// Heal is the number of the event that heals the drift, or 0. Indexes are the positions of the
	// objects that it can heal in the list of resources. Tries is the number of queued Heals, each
	// within an hour of the one before.
	Heal    uint64 `json:"heal,omitempty"`
	Indexes []int  `json:"indexes,omitempty"`
	Tries   int    `json:"tries,omitempty"`
}

// isCurrent reports whether an observation was made since the last event.
func (o *observed) isCurrent(r *record) bool {
	return r.State == Instantiated && o.Transitions == r.Transitions
}

// observation is the result of one read of an app on a cluster.
type observation struct {
	resources []appcontext.Resource // all of them; hooks are not read
	states    []connector.State
	compared  bool
	changes   []connector.Change // of objects that count as drifted
	reason    Reason             // set if the cluster was not read
	message   string
}

// isObserved reports whether an object is read between events.
func isObserved(r appcontext.Resource) bool {
	return r.Hook == appcontext.HookNone || r.Hook == appcontext.HookCRDInstall
}

func isDrift(c *connector.Change) bool { return canHeal(c) || c.Kind == connector.ChangeKindRefused }

func canHeal(c *connector.Change) bool {
	switch c.Kind {
	case connector.ChangeKindCreate, connector.ChangeKindUpdate, connector.ChangeKindReplace:
		return true
	}
	return false
}

// after returns the observation to store after a read, without a decision about healing. prev is
// the previous observation, or one without objects.
func (s *observation) after(prev observed) observed {
	next := prev
	if s.reason != "" {
		if next.Reason != s.reason { // messages of one reason may differ each time
			next.Reason, next.Message = s.reason, s.message
		}
		return next
	}
	next.Reason, next.Message = "", s.message
	next.Objects, next.Ready, next.NotReady = len(s.states), 0, nil
	for i := range s.states {
		state := s.states[i]
		if state.Exists && state.Ready {
			next.Ready++
		} else if len(next.NotReady) < maxObserved {
			state.Message = shortenTo(state.Message, maxObservedText)
			next.NotReady = append(next.NotReady, state)
		}
	}
	next.Compared, next.Drifted, next.Drift, next.Indexes = s.compared, len(s.changes), nil, nil
	places := map[appcontext.Object]int{}
	for i := range s.resources {
		places[s.resources[i].Object] = i
	}
	for i := range s.changes {
		if len(next.Drift) < maxObserved {
			next.Drift = append(next.Drift, s.changes[i])
		}
		if canHeal(&s.changes[i]) {
			next.Indexes = append(next.Indexes, places[s.changes[i].Object])
		}
	}
	return next
}
