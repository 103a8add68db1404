// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

func statusMessage(s *rsync.Status) *rsyncv1.Status {
	if s == nil {
		return nil
	}
	return &rsyncv1.Status{
		Id: s.ID, State: string(s.State), Stopped: s.Stopped, Transitions: s.Transitions, Revision: s.Revision,
		Queue: messagesOf(s.Queue, elementMessage), Clusters: messagesOf(s.Clusters, clusterStatusMessage),
		Detached: messagesOf(s.Detached, clusterMessage), Observed: messagesOf(s.Observed, observationMessage),
	}
}

func statusOf(m *rsyncv1.Status) *rsync.Status {
	if m == nil {
		return nil
	}
	return &rsync.Status{
		ID: m.Id, State: rsync.State(m.State), Stopped: m.Stopped, Transitions: m.Transitions, Revision: m.Revision,
		Queue: valuesOf(m.Queue, elementOf), Clusters: valuesOf(m.Clusters, clusterStatusOf),
		Detached: valuesOf(m.Detached, clusterOf), Observed: valuesOf(m.Observed, observationOf),
	}
}

func summaryMessage(s *rsync.Summary) *rsyncv1.Summary {
	return &rsyncv1.Summary{Id: s.ID, State: string(s.State)}
}

func summaryOf(m *rsyncv1.Summary) rsync.Summary {
	return rsync.Summary{ID: m.GetId(), State: rsync.State(m.GetState())}
}

func elementMessage(e *rsync.Element) *rsyncv1.Element {
	return &rsyncv1.Element{
		Seq: e.Seq, Event: string(e.Event), OtherId: e.UCID, Status: string(e.Status), Reason: string(e.Reason),
		Message: e.Message, IdempotencyKey: e.IdempotencyKey, Queued: timeMessage(e.Queued),
		Finished: timeMessage(e.Finished), Rollout: e.Rollout,
		Rollback: refMessage(e.Rollback), Next: refMessage(e.Next),
	}
}

func elementOf(m *rsyncv1.Element) rsync.Element {
	return rsync.Element{
		Seq: m.GetSeq(), Event: rsync.EventType(m.GetEvent()), UCID: m.GetOtherId(),
		Status: rsync.ElementStatus(m.GetStatus()), Reason: rsync.Reason(m.GetReason()), Message: m.GetMessage(),
		IdempotencyKey: m.GetIdempotencyKey(), Queued: timeOf(m.GetQueued()), Finished: timeOf(m.GetFinished()),
		Rollout: m.GetRollout(), Rollback: optionalRefOf(m.GetRollback()), Next: optionalRefOf(m.GetNext()),
	}
}

func clusterStatusMessage(c *rsync.ClusterStatus) *rsyncv1.ClusterStatus {
	return &rsyncv1.ClusterStatus{
		App: c.App, Cluster: clusterMessage(&c.Cluster), Seq: c.Seq, Event: string(c.Event), Phase: string(c.Phase),
		Reason: string(c.Reason), Message: c.Message, Time: timeMessage(c.Time), Begun: timeMessage(c.Begun),
		ResourcesOmitted: int64(c.ResourcesOmitted), Resources: messagesOf(c.Resources, stateMessage),
	}
}

func clusterStatusOf(m *rsyncv1.ClusterStatus) rsync.ClusterStatus {
	return rsync.ClusterStatus{
		App: m.GetApp(), Cluster: clusterOf(m.GetCluster()), Seq: m.GetSeq(), Event: rsync.EventType(m.GetEvent()),
		Phase: rsync.Phase(m.GetPhase()), Reason: rsync.Reason(m.GetReason()), Message: m.GetMessage(),
		Time: timeOf(m.GetTime()), Begun: timeOf(m.GetBegun()),
		Resources: valuesOf(m.GetResources(), stateOf), ResourcesOmitted: int(m.GetResourcesOmitted()),
	}
}

func stateMessage(s *connector.State) *rsyncv1.ResourceState {
	return &rsyncv1.ResourceState{
		Object: objectMessage(&s.Object), Exists: s.Exists, Ready: s.Ready, Failed: s.Failed, Message: s.Message,
	}
}

func stateOf(m *rsyncv1.ResourceState) connector.State {
	return connector.State{
		Object: objectOf(m.GetObject()), Exists: m.GetExists(), Ready: m.GetReady(), Failed: m.GetFailed(),
		Message: m.GetMessage(),
	}
}

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

func changeMessage(c *rsync.Change) *rsyncv1.Change {
	out := &rsyncv1.Change{Revision: c.Revision}
	switch {
	case c.Deleted:
		out.Change = &rsyncv1.Change_Deleted{Deleted: true}
	case c.Element != nil:
		out.Change = &rsyncv1.Change_Element{Element: elementMessage(c.Element)}
	case c.Cluster != nil:
		out.Change = &rsyncv1.Change_Cluster{Cluster: clusterStatusMessage(c.Cluster)}
	case c.Observed != nil:
		out.Change = &rsyncv1.Change_Observed{Observed: observationMessage(c.Observed)}
	case c.Rollout != 0:
		out.Change = &rsyncv1.Change_Rollout{Rollout: c.Rollout}
	default:
		out.Change = &rsyncv1.Change_State{State: string(c.State)}
	}
	return out
}

func changeOf(m *rsyncv1.Change) rsync.Change {
	out := rsync.Change{Revision: m.GetRevision()}
	switch c := m.GetChange().(type) {
	case *rsyncv1.Change_Deleted:
		out.Deleted = c.Deleted
	case *rsyncv1.Change_Element:
		out.Element = new(elementOf(c.Element))
	case *rsyncv1.Change_Cluster:
		out.Cluster = new(clusterStatusOf(c.Cluster))
	case *rsyncv1.Change_Observed:
		out.Observed = new(observationOf(c.Observed))
	case *rsyncv1.Change_Rollout:
		out.Rollout = c.Rollout
	case *rsyncv1.Change_State:
		out.State = rsync.State(c.State)
	}
	return out
}

// snapshot returns a status as the changes with which a Watch begins.
func snapshot(s *rsync.Status) *rsyncv1.WatchResponse {
	out := &rsyncv1.WatchResponse{
		Changes: []*rsyncv1.Change{changeMessage(&rsync.Change{Revision: s.Revision, State: s.State})},
	}
	for i := range s.Queue {
		out.Changes = append(out.Changes, changeMessage(&rsync.Change{Revision: s.Revision, Element: &s.Queue[i]}))
	}
	for i := range s.Clusters {
		out.Changes = append(out.Changes, changeMessage(&rsync.Change{Revision: s.Revision, Cluster: &s.Clusters[i]}))
	}
	for i := range s.Observed {
		out.Changes = append(out.Changes, changeMessage(&rsync.Change{Revision: s.Revision, Observed: &s.Observed[i]}))
	}
	return out
}

func timeMessage(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func timeOf(m *timestamppb.Timestamp) time.Time {
	if m == nil {
		return time.Time{}
	}
	return m.AsTime()
}
