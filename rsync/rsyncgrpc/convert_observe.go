// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

func observationMessage(o *rsync.Observation) *rsyncv1.Observation {
	return &rsyncv1.Observation{
		App: o.App, Cluster: clusterMessage(&o.Cluster), Time: timeMessage(o.Time),
		Objects: int64(o.Objects), Ready: int64(o.Ready), NotReady: messagesOf(o.NotReady, stateMessage),
		Compared: o.Compared, Drifted: int64(o.Drifted), Drift: messagesOf(o.Drift, objectDiffMessage),
		Heals: int64(o.Heals), Healed: timeMessage(o.Healed), Reason: string(o.Reason), Message: o.Message,
	}
}

func observationOf(m *rsyncv1.Observation) rsync.Observation {
	return rsync.Observation{
		App: m.GetApp(), Cluster: clusterOf(m.GetCluster()), Time: timeOf(m.GetTime()),
		Objects: int(m.GetObjects()), Ready: int(m.GetReady()), NotReady: valuesOf(m.GetNotReady(), stateOf),
		Compared: m.GetCompared(), Drifted: int(m.GetDrifted()), Drift: valuesOf(m.GetDrift(), changeOfObject),
		Heals: int(m.GetHeals()), Healed: timeOf(m.GetHealed()),
		Reason: rsync.Reason(m.GetReason()), Message: m.GetMessage(),
	}
}
