// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

func observationMessage(o *rsync.Observation) *rsyncv1.Observation {
	out := &rsyncv1.Observation{
		App: o.App, Cluster: clusterMessage(o.Cluster), Time: timeMessage(o.Time),
		Objects: int64(o.Objects), Ready: int64(o.Ready), NotReady: stateMessages(o.NotReady),
		Compared: o.Compared, Drifted: int64(o.Drifted), Heals: int64(o.Heals), Healed: timeMessage(o.Healed),
		Reason: string(o.Reason), Message: o.Message,
	}
	for i := range o.Drift {
		out.Drift = append(out.Drift, objectDiffMessage(&o.Drift[i]))
	}
	return out
}

func observationOf(m *rsyncv1.Observation) *rsync.Observation {
	out := &rsync.Observation{
		App: m.GetApp(), Cluster: clusterOf(m.GetCluster()), Time: timeOf(m.GetTime()),
		Objects: int(m.GetObjects()), Ready: int(m.GetReady()), NotReady: statesOf(m.GetNotReady()),
		Compared: m.GetCompared(), Drifted: int(m.GetDrifted()), Heals: int(m.GetHeals()),
		Healed: timeOf(m.GetHealed()),
		Reason: rsync.Reason(m.GetReason()), Message: m.GetMessage(),
	}
	for _, d := range m.GetDrift() {
		out.Drift = append(out.Drift, changeOfObject(d))
	}
	return out
}
