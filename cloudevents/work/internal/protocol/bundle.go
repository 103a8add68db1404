// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import "time"

// Peers of the profile ManifestBundle send no UIDs, and their numbers differ: versions count the
// writes of one work, like metadata.generation, and statuses have snowflake IDs.

// Unreported is how far the version that an agent has may be above the version that it shows: the
// reports of the versions in between may be lost or late. Brokers keep about this many messages for
// a client.
const Unreported = 1000

// NextGeneration returns V of a work's next version: its generation, or highest+1 if that is
// larger. highest is the highest V that was used for the work, or may have been used.
func NextGeneration(generation, highest int64) int64 { return max(generation, highest+1) }

// The parts of a snowflake ID in the peers' library: milliseconds since its epoch, a node, and a
// step within the millisecond. The peers refuse to compare IDs of different nodes, and every agent
// is node 1.
const (
	snowflakeEpoch = 1288834974657
	snowflakeShift = 22
	nodeShift      = 12
	nodeMask       = (1<<10 - 1) << nodeShift
	stepMask       = 1<<nodeShift - 1
	agentNode      = 1 << nodeShift
)

// NextSnowflake returns the sequence ID after last. Usually this is an ID of the current time. If
// the clock is behind last, it is the next step, or with a positive skip an ID that many
// milliseconds later. A last ID beyond [BundleBoundsAt] is ignored.
func NextSnowflake(last int64, now time.Time, skip int64) int64 {
	last = plausible(last, snowflakeHorizon(now))
	clock, at := max(now.UnixMilli()-snowflakeEpoch, 0), last>>snowflakeShift
	step := last & stepMask
	switch {
	case clock > at:
		return clock<<snowflakeShift | agentNode
	case skip > 0:
		return (at+skip)<<snowflakeShift | agentNode
	case last&nodeMask > agentNode, step == stepMask: // no step above it
		return (at+1)<<snowflakeShift | agentNode
	case last&nodeMask < agentNode:
		return at<<snowflakeShift | agentNode
	}
	return at<<snowflakeShift | agentNode | (step + 1)
}

func snowflakeHorizon(now time.Time) int64 {
	return (max(now.UnixMilli()-snowflakeEpoch, 0) + MaxAhead.Milliseconds()) << snowflakeShift
}

// BundleBoundsAt returns the bounds of bundle peers' numbers. Versions count writes, and maxVersion
// is the greatest version that an event can carry. An agent may show up to half of it, and a source
// may use up to three quarters: a quarter is left for the source's later writes.
func BundleBoundsAt(now time.Time, maxVersion int64) Bounds {
	return Bounds{
		Version: maxVersion / 2, Own: maxVersion / 4 * 3,
		Sequence: snowflakeHorizon(now), Time: now.Add(MaxAhead),
	}
}

// orderBundle compares an event of a bundle source with the agent's record. A greater V is newer,
// whatever the time is. A lower V may be from a source that counts from 1 again, so the time
// decides. The time also decides among events of one V: works without versions have 0.
func orderBundle(w AgentWork, e SpecEvent) ordering {
	later := 0
	if !e.Time.IsZero() && !w.Time.IsZero() {
		later = e.Time.Compare(w.Time)
	}
	switch {
	case e.V > w.V, later > 0:
		return newer
	case e.V == w.V && later == 0:
		return same
	}
	return older
}

// onBundleStatus is onStatusWithoutUID for bundle agents. Their statuses are ordered by Seq.
func onBundleStatus(w SourceWork, e StatusEvent) SourceActions {
	fresh := e.Seq > w.Seq
	if e.Gone {
		return SourceActions{
			Finish: w.Phase.IsDeleting() && e.V >= w.DeleteV,
			// The agent removed a work that is live here: it carried out a deletion from before a
			// restart, or of another process. Before the first status of the work, a lower version
			// belongs to an earlier work.
			Raise: !w.Phase.IsDeleting() && fresh && (w.Reported || e.V >= w.V),
		}
	}
	if e.Other && !w.Phase.IsDeleting() {
		return SourceActions{Raise: true} // the other work may have the same V
	}
	return SourceActions{
		Raise: e.V > w.V && !w.Unversioned,
		// the deletion: it was given up, or a late event undid it, and lists may lack the work
		Send:      w.Phase == SourceGone,
		Accept:    e.V >= w.CreateV && fresh,
		Confirmed: e.V == w.V,
	}
}
