// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

func onEdge(name string) appcontext.ClusterID {
	return appcontext.ClusterID{Provider: "edge", Name: name}
}

func (s *scene) mode(cluster string, m fake.Mode) { s.clusters.Cluster("edge", cluster).SetMode(m) }

func (s *scene) detach(id, cluster string) {
	s.t.Helper()
	if err := s.engine.Detach(s.t.Context(), id, onEdge(cluster)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) attach(id, cluster string) {
	s.t.Helper()
	if err := s.engine.Attach(s.t.Context(), id, onEdge(cluster)); err != nil {
		s.t.Fatal(err)
	}
}

// remnants returns the pending cleanups as "context@cluster object object; …".
func (s *scene) remnants() string {
	s.t.Helper()
	all, err := s.engine.Detached(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	out := ""
	for i, r := range all {
		if i > 0 {
			out += "; "
		}
		out += r.AppContextID + "@" + r.Cluster.Name
		for _, o := range r.Objects {
			out += " " + o.Name
		}
	}
	return out
}

func (s *scene) pending(want string) {
	s.t.Helper()
	if got := s.remnants(); got != want {
		s.t.Errorf("to be cleaned up is %q, want %q", got, want)
	}
}

func (s *scene) appOn(id, app, cluster string) rsync.ClusterStatus {
	s.t.Helper()
	status, err := s.engine.Status(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	if c := status.Cluster(app, onEdge(cluster)); c != nil {
		return *c
	}
	return rsync.ClusterStatus{}
}

// cleanupProbeTime is longer than the interval between two probes of a cluster that only has
// pending cleanups.
const cleanupProbeTime = 11 * time.Minute

// TestDetachWhileInstantiating: the event in progress ends without the cluster. After the cluster
// recovers, the objects of the context are deleted from it.
func TestDetachWhileInstantiating(t *testing.T) {
	for _, mode := range []fake.Mode{fake.ModeUnreachable, fake.ModeBlackHole, fake.ModeFailing} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil, rsync.Options{})
				s.create("a", "web@c1 p=1; web@c2 p=1 q=1; db<web@c2 d=1")
				s.done(s.engine.Instantiate(t.Context(), "a"))
				s.mode("c2", mode)
				ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
				time.Sleep(time.Hour)
				began := time.Now()
				s.detach("a", "c2")
				s.done(ref, nil)
				if took := time.Since(began); took > 50*time.Millisecond {
					t.Errorf("the event took %s", took)
				}
				s.state("a", rsync.Instantiated)
				for _, app := range []string{"web", "db"} {
					c := s.appOn("a", app, "c2")
					if c.Phase != rsync.PhaseSkipped || c.Reason != rsync.ReasonDetached || c.Seq != ref.Seq {
						t.Errorf("%s: %+v", app, c)
					}
				}
				if c := s.appOn("a", "web", "c1"); c.Phase != rsync.PhaseDone {
					t.Errorf("%+v", c)
				}
				s.pending("a@c2 d p q")
				s.mode("c2", fake.ModeWorks)
				time.Sleep(cleanupProbeTime)
				s.pending("")
				s.shows("c2", "")
				s.shows("c1", "p=1")
			})
		})
	}
}

// TestDetachThenTerminateAndDelete: a context ends without its dead cluster and is deleted. Its
// objects on this cluster are deleted later, except those that another context holds.
func TestDetachThenTerminateAndDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 p=1; web@c2 p=1 q=1 pre-delete!j=1")
		s.create("b", "web@c2 q=2 r=2")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.done(s.engine.Instantiate(t.Context(), "b"))
		s.mode("c2", fake.ModeBlackHole)
		ref := s.ref(s.engine.Terminate(t.Context(), "a"))
		time.Sleep(time.Minute)
		s.detach("a", "c2")
		s.done(ref, nil)
		s.state("a", rsync.Terminated)
		if err := s.engine.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		s.pending("a@c2 p q")
		s.mode("c2", fake.ModeWorks)
		time.Sleep(cleanupProbeTime)
		s.pending("")
		s.shows("c2", "q=2 r=2")
		if verbs := s.verbs("c2"); strings.Contains(verbs, "Apply j") {
			t.Errorf("a hook ran: %s", verbs)
		}
		s.done(s.engine.Terminate(t.Context(), "b"))
		s.shows("c2", "")
	})
}

// TestDetachBetweenEvents: a cluster is detached between events. All later events skip it.
func TestDetachBetweenEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 p=1; web@c2 p=1")
		s.create("b", "web@c1 p=2; web@c2 p=2")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.mode("c2", fake.ModeUnreachable)
		s.detach("a", "c2")
		s.detach("a", "c2")
		s.detach("b", "c2")
		s.pending("a@c2 p")
		s.done(s.engine.Read(t.Context(), "a"))
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.done(s.engine.Update(t.Context(), "a", "b"))
		s.state("b", rsync.Instantiated)
		s.state("a", rsync.Updated)
		s.shows("c1", "p=2")
		s.done(s.engine.Terminate(t.Context(), "b"))
		s.mode("c2", fake.ModeWorks)
		time.Sleep(cleanupProbeTime)
		s.shows("c2", "")
		s.pending("")
		status, err := s.engine.Status(t.Context(), "a")
		if err != nil || fmt.Sprint(status.Detached) != "[edge+c2]" {
			t.Errorf("%v, %v", status.Detached, err)
		}
	})
}

// TestAttach: Attach ends a cleanup that is still pending. Later events apply the objects on the
// cluster again.
func TestAttach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 p=1; web@c2 p=1 q=1")
		s.create("b", "web@c2 p=1 q=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.mode("c2", fake.ModeUnreachable)
		s.detach("a", "c2")
		time.Sleep(time.Minute)
		s.attach("a", "c2")
		time.Sleep(time.Second)
		s.pending("")
		s.mode("c2", fake.ModeWorks)
		time.Sleep(cleanupProbeTime)
		s.shows("c2", "p=1 q=1")

		s.detach("a", "c2") // the cluster answers, so the cleanup is done immediately
		time.Sleep(time.Minute)
		s.shows("c2", "")
		s.attach("a", "c2")
		s.attach("a", "c2")
		s.done(s.engine.Update(t.Context(), "a", "b")) // the same objects, but the cluster does not have them
		s.shows("c2", "p=1 q=1")
		s.done(s.engine.Rollback(t.Context(), "b", "a"))
		s.shows("c2", "p=1 q=1")
		s.shows("c1", "p=1")
		s.done(s.engine.Terminate(t.Context(), "a"))
		s.shows("c2", "")
	})
}

// TestDetachBeforeUpdateDeletes: the cluster is detached from the new context of an update before
// the update begins. The update deletes all objects of the replaced context there.
func TestDetachBeforeUpdateDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 p=1; web@c2 p=1 q=1")
		s.create("b", "web@c1 p=1; web@c2 p=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.detach("b", "c2")
		s.pending("")
		s.done(s.engine.Update(t.Context(), "a", "b"))
		s.shows("c2", "")
		s.shows("c1", "p=1")
	})
}

// TestDetachErrors: Detach and Attach return an error for an unknown context or cluster, and for an
// invalid ID.
func TestDetachErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 p=1")
		for name, f := range map[string]func(string, appcontext.ClusterID) error{
			"Detach": func(id string, c appcontext.ClusterID) error { return s.engine.Detach(t.Context(), id, c) },
			"Attach": func(id string, c appcontext.ClusterID) error { return s.engine.Attach(t.Context(), id, c) },
		} {
			for _, call := range []struct {
				id   string
				c    appcontext.ClusterID
				want error
			}{
				{"a", onEdge("c2"), rsync.ErrNotFound}, {"b", onEdge("c1"), rsync.ErrNotFound},
				{"a/b", onEdge("c1"), rsync.ErrInvalidInput},
			} {
				if err := f(call.id, call.c); !errors.Is(err, call.want) {
					t.Errorf("%s of %s on %s: %v", name, call.id, call.c, err)
				}
			}
		}
	})
}

// TestDetachedContextHoldsNoObjects: a detached context no longer holds its objects on the cluster.
func TestDetachedContextHoldsNoObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 q=1")
		s.create("b", "web@c1 q=2")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.done(s.engine.Instantiate(t.Context(), "b"))
		s.detach("a", "c1")
		time.Sleep(time.Minute)
		s.pending("")
		s.shows("c1", "q=2")
		held, err := s.engine.Inventory(t.Context(), onEdge("c1"))
		if err != nil || len(held) != 1 || held[0].AppContextID != "b" {
			t.Errorf("%+v, %v", held, err)
		}
		s.done(s.engine.Terminate(t.Context(), "b"))
		s.shows("c1", "")
		s.state("a", rsync.Instantiated)
	})
}

// TestDetachWhileEventBegins: an event skips a cluster that is detached just before the event
// begins.
func TestDetachWhileEventBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.create("a", "web@c1 x=1; web@c2 x=1")
		r.ref(r.user.Instantiate(t.Context(), "a"))
		r.before(has("InProgress"), func() {
			if err := r.user.Detach(t.Context(), "a", onEdge("c1")); err != nil {
				t.Error(err)
			}
		}, storetest.VerdictPass)
		r.wants("a", "Instantiate Done", rsync.Instantiated)
		r.shows("c1", "")
		r.shows("c2", "x=1")
	})
}

// TestAttachWhileClusterIsSkipped: a cluster is attached while an event that skips it is in
// progress. The event applies nothing there, but a later update does.
func TestAttachWhileClusterIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 p=1; web@c2 p=1")
		s.create("b", "web@c1 p=1; web@c2 p=1")
		s.detach("a", "c2")
		s.mode("c1", fake.ModeUnreachable)
		ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(time.Minute)
		s.attach("a", "c2")
		s.mode("c1", fake.ModeWorks)
		s.done(ref, nil)
		s.shows("c2", "")
		s.done(s.engine.Update(t.Context(), "a", "b"))
		s.shows("c2", "p=1")
	})
}

// TestDetachInRollout: a rollout continues without a cluster that is detached while the rollout
// waits for it. It does not begin a cluster that was detached before. Neither cluster counts as
// failed.
func TestDetachInRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 p=1; web@c2 p=1; web@c3 p=1; web@c4 p=1")
		s.mode("c1", fake.ModeBlackHole)
		s.detach("a", "c3")
		ref := s.ref(s.engine.Instantiate(t.Context(), "a", rsync.WithRollout(rsync.Rollout{
			MaxConcurrency: "1", ProgressDeadline: 2 * time.Hour,
		})))
		time.Sleep(time.Hour)
		s.shows("c2", "")
		s.detach("a", "c1")
		s.done(ref, nil)
		for cluster, want := range map[string]string{"c1": "", "c2": "p=1", "c3": "", "c4": "p=1"} {
			s.shows(cluster, want)
		}
		if c := s.appOn("a", "web", "c1"); c.Reason != rsync.ReasonDetached {
			t.Errorf("%+v", c)
		}
		s.mode("c1", fake.ModeWorks)
		time.Sleep(cleanupProbeTime)
		s.pending("")
	})
}

// TestDiffSkipsDetachedClusters: Diff predicts the effect of an event if clusters are detached.
func TestDiffSkipsDetachedClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 p=1; web@c2 p=1")
		s.create("b", "web@c1 p=1; web@c2 p=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		changes := func(event rsync.EventType, id, from string) (out string) {
			diff, err := s.engine.Diff(t.Context(), event, id, from)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range diff.Clusters {
				for _, change := range c.Changes {
					out += fmt.Sprintf("%s of %s %s; ", c.Cluster.Name, c.AppContextID, change.Kind)
				}
			}
			return out
		}
		s.detach("b", "c2") // an update deletes the objects of the replaced context there
		if got, want := changes(rsync.Update, "b", "a"),
			fmt.Sprintf("c2 of a %s; ", connector.ChangeKindDelete); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		s.attach("b", "c2")
		s.detach("a", "c2")
		time.Sleep(time.Minute) // cleaned up
		if got, want := changes(rsync.Update, "b", "a"),
			fmt.Sprintf("c2 of b %s; ", connector.ChangeKindCreate); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got, want := changes(rsync.Terminate, "a", ""),
			fmt.Sprintf("c1 of a %s; ", connector.ChangeKindDelete); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
