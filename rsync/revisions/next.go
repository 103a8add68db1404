// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"slices"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// transitions returns the engine's default state machine, in which an update may also leave a revision
// that failed to terminate.
func transitions() rsync.Transitions {
	out := slices.Clone(rsync.TransitionsDefault)
	for i := range out {
		if out[i].Event == rsync.UpdateDelete {
			out[i].From = append(slices.Clone(out[i].From), rsync.TerminationFailed)
		}
	}
	return out
}

// everything is the comparer of the engine: an update applies all resources, so it also
// completes an interrupted earlier update.
func everything(_, _ *appcontext.Resource) bool { return true }

// revisionState is a revision and the state of its context, which is empty without a context.
type revisionState struct {
	number int
	state  rsync.State
}

// live reports whether objects of a revision may be on clusters.
func (r revisionState) live() bool {
	switch r.state {
	case "", rsync.Created, rsync.Terminated, rsync.Updated:
		return false
	}
	return true
}

// verb is the kind of a step.
type verb string

const (
	nothing     verb = ""
	create      verb = "create"
	instantiate verb = "instantiate"
	update      verb = "update"
	terminate   verb = "terminate"
	remove      verb = "remove"
)

// step is the next step for a revision; from is the replaced revision of an update.
type step struct {
	verb     verb
	number   int // for terminate: the newest live revision
	from     int
	rollback bool
}

// next returns the next step from the states of all revisions, in the order of their numbers, to a
// wanted revision, or with 0 to none. No event may be in progress. The wanted revision is one of
// them, possibly without a context.
func next(revisions []revisionState, wanted int) step {
	var target revisionState
	var others []revisionState
	for _, r := range revisions {
		if r.number == wanted {
			target = r
		} else if r.live() {
			others = append(others, r)
		}
	}
	switch {
	case wanted == 0 && len(others) > 0:
		return step{verb: terminate, number: others[len(others)-1].number}
	case wanted == 0:
		for _, r := range revisions {
			if r.state != "" {
				return step{verb: remove, number: r.number}
			}
		}
		return step{}
	case target.state == "":
		return step{verb: create, number: wanted}
	case len(others) > 0:
		// The newest first: an earlier revision may have objects of its own, which the last update
		// removes.
		from := others[len(others)-1].number
		return step{verb: update, number: wanted, from: from, rollback: wanted < from}
	case target.state != rsync.Instantiated:
		return step{verb: instantiate, number: wanted}
	}
	return step{}
}

// old returns the revisions that may be deleted: more than keep, neither wanted nor live.
func old(revisions []revisionState, wanted, keep int) []int {
	var out []int
	for i, r := range revisions {
		if len(revisions)-i > keep && r.number != wanted && !r.live() {
			out = append(out, r.number)
		}
	}
	return out
}
