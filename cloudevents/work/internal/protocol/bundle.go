// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import "time"

// Peers of the profile ManifestBundle are strict, and number in a way of their own: versions count the writes of one
// work, as metadata.generation does, and statuses have snowflake IDs.

// Unreported is how many versions an agent may have above the one that it shows, if an earlier process of the source
// assigned them: its reports of them are lost or late. Brokers keep about so many messages for a client.
const Unreported = 1000

// NextGeneration returns V of a work's next version: its generation, unless that is not above highest, which
// is the highest V that was used for the work, or may have been.
func NextGeneration(generation, highest int64) int64 {
	return max(generation, highest+1)
}

// The parts of a snowflake ID, as the peers' library cuts them: milliseconds since its epoch, a node, and a step
// within the millisecond. The peers refuse to compare IDs of different nodes, and every agent is node 1.
const (
	snowflakeEpoch = 1288834974657
	snowflakeShift = 22
	nodeShift      = 12
	nodeMask       = (1<<10 - 1) << nodeShift
	stepMask       = 1<<nodeShift - 1
	agentNode      = 1 << nodeShift
)

// NextSnowflake returns the sequence ID after last: one of now, or where the clock is behind, the
// next step, or one that many milliseconds later. A last ID beyond [BundleBoundsAt] does not count.
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
// is the greatest that an event can carry: an agent may show half of it, so that a quarter is left
// for what its source writes after that.
func BundleBoundsAt(now time.Time, maxVersion int64) Bounds {
	return Bounds{
		Version: maxVersion / 2, Own: maxVersion / 4 * 3,
		Sequence: snowflakeHorizon(now), Time: now.Add(MaxAhead),
	}
}

// orderBundle places an event of a bundle source. A greater V is newer whatever the time says; a lower one may be of a
// source that counts anew, so the time decides, as it does among events of one V: works without versions have 0.
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

// onBundleStatus does what onStrictStatus does, but statuses have an order of their own.
func onBundleStatus(w SourceWork, e StatusEvent) SourceActions {
	fresh := e.Seq > w.Seq
	if e.Gone {
		return SourceActions{
			Finish: w.Deleting && e.V >= w.DeleteV,
			// It went away although it is live here: a deletion from before a restart, or of another process, was
			// carried out. Before the first status of the work, a lower version is that of an earlier one.
			Raise: !w.Deleting && fresh && (w.Reported || e.V >= w.V),
		}
	}
	if e.Other && !w.Deleting {
		return SourceActions{Raise: true} // the agent may have V of that work too
	}
	return SourceActions{
		Raise:     e.V > w.V && !w.Unversioned,
		Send:      w.Done, // the deletion: it was given up, or revived by something late, and no list need name it
		Accept:    e.V >= w.CreateV && fresh,
		Confirmed: e.V == w.V,
	}
}
