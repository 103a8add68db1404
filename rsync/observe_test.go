// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// observation returns the observation of the app web on a cluster, or an empty observation.
func (s *scene) observation(id, cluster string) rsync.Observation {
	s.t.Helper()
	status, err := s.engine.Status(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	if o := status.Observation("web", appcontext.ClusterID{Provider: "edge", Name: cluster}); o != nil {
		return *o
	}
	return rsync.Observation{}
}

// driftOf returns an observation as "ready/objects drifted: name change path before after; …".
func driftOf(o rsync.Observation) string {
	out := fmt.Sprintf("%d/%d %d:", o.Ready, o.Objects, o.Drifted)
	for _, c := range o.Drift {
		out += fmt.Sprintf(" %s %s", c.Name, c.Kind)
		for _, f := range c.Fields {
			out += fmt.Sprintf(" %s %s %s", f.Path, f.Before, f.After)
		}
	}
	return out
}

func (s *scene) observes(id, cluster, want string) {
	s.t.Helper()
	if got := driftOf(s.observation(id, cluster)); got != want {
		s.t.Errorf("%s on %s is %q, want %q", id, cluster, got, want)
	}
}

// events returns the number of elements of a type in the queue of a context.
func (s *scene) events(id string, event rsync.EventType) (n int) {
	s.t.Helper()
	status, err := s.engine.Status(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range status.Queue {
		if e.Event == event {
			n++
		}
	}
	return n
}

// TestObservationFollowsObjects: objects become unready and ready again, and a watch reports it.
func TestObservationFollowsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{Observe: rsync.ObserveStatus})
		c := s.clusters.Cluster("edge", "c1")
		s.create("a", "web@c1 x=1 y=1")
		status, err := s.engine.Status(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		s.done(s.engine.Instantiate(t.Context(), "a"))
		var seen []string
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for change, err := range s.engine.Watch(ctx, "a", status.Revision+1) {
				if err != nil {
					t.Error(err)
				}
				if change.Observed != nil {
					seen = append(seen, driftOf(*change.Observed))
				}
			}
		}()
		time.Sleep(3 * time.Second)
		s.observes("a", "c1", "2/2 0:")
		c.SetReady(object("ConfigMap", "x"), false, false)
		time.Sleep(3 * time.Second)
		s.observes("a", "c1", "1/2 0:")
		if o := s.observation("a", "c1"); len(o.NotReady) != 1 || o.NotReady[0].Name != "x" || o.Compared {
			t.Errorf("%+v", o)
		}
		c.SetReady(object("ConfigMap", "x"), true, false)
		time.Sleep(3 * time.Second)
		s.observes("a", "c1", "2/2 0:")
		s.state("a", rsync.Instantiated)
		cancel()
		<-ended
		if want := []string{"2/2 0:", "1/2 0:", "2/2 0:"}; !slices.Equal(seen, want) {
			t.Errorf("the watch reported %q, want %q", seen, want)
		}
	})
}

// TestObserveNothing: by default, clusters receive no calls between events.
func TestObserveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		before := s.memory.Counts()
		s.clusters.Cluster("edge", "c1").SetObject(object("ConfigMap", "x"), nil)
		time.Sleep(time.Hour)
		after := s.memory.Counts()
		after.KeepAlives = before.KeepAlives
		if n := s.clusters.Cluster("edge", "c1").Count(fake.VerbGet); n != 0 || after != before {
			t.Errorf("%d reads of the cluster; the store was asked %+v, before %+v", n, after, before)
		}
		s.observes("a", "c1", "0/0 0:")
	})
}

// TestDriftIsReported: ObserveDrift reports drift with its fields, and does not heal it.
func TestDriftIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{Observe: rsync.ObserveDrift})
		c := s.clusters.Cluster("edge", "c1")
		s.create("a", "web@c1 x=1 y=1 pre-install!job=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(3 * time.Second)
		c.SetObject(object("Job", "job"), nil)
		c.SetObject(object("ConfigMap", "x"), manifest("ConfigMap", "x", "2"))
		c.SetObject(object("ConfigMap", "y"), nil)
		time.Sleep(3 * time.Second)
		s.observes("a", "c1", "1/2 2: x Update .value 2 1 y Create")
		if o := s.observation("a", "c1"); !o.Compared || o.Heals != 0 {
			t.Errorf("%+v", o)
		}
		time.Sleep(time.Hour)
		s.shows("c1", "x=2")
		if n := s.events("a", rsync.Heal); n != 0 {
			t.Errorf("%d heals", n)
		}
		c.SetObject(object("ConfigMap", "x"), manifest("ConfigMap", "x", "1"))
		c.SetObject(object("ConfigMap", "y"), manifest("ConfigMap", "y", "1"))
		time.Sleep(3 * time.Second)
		s.observes("a", "c1", "2/2 0:")
		s.done(s.engine.Terminate(t.Context(), "a"))
		if status, err := s.engine.Status(t.Context(), "a"); err != nil || len(status.Observed) != 0 {
			t.Errorf("a terminated context is observed: %+v, %v", status, err)
		}
	})
}

// TestDriftIsHealed: only drifted objects are applied again, without hooks. The state does not
// change.
func TestDriftIsHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{Observe: rsync.ObserveHeal})
		s.create("a", "web@c1 x=1 y=1 z=1 post-install!job=1; web@c2 x=1")
		before := s.done(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(3 * time.Second)
		c := s.clusters.Cluster("edge", "c1")
		c.SetObject(object("ConfigMap", "x"), manifest("ConfigMap", "x", "2"))
		c.SetObject(object("ConfigMap", "y"), nil)
		c.Forget()
		s.clusters.Cluster("edge", "c2").Forget()
		time.Sleep(5 * time.Second)
		s.shows("c1", "job=1 x=1 y=1 z=1")
		if got := s.verbs("c1") + s.verbs("c2"); got != "Apply x, Apply y" {
			t.Errorf("the clusters did %s", got)
		}
		s.observes("a", "c1", "3/3 0:")
		if o := s.observation("a", "c1"); o.Heals != 1 || o.Healed.IsZero() {
			t.Errorf("%+v", o)
		}
		status, err := s.engine.Status(t.Context(), "a")
		if err != nil || status.State != rsync.Instantiated || status.Transitions != before.Transitions {
			t.Errorf("%+v, %v", status, err)
		}
		time.Sleep(time.Hour)
		if n := s.events("a", rsync.Heal); n != 1 {
			t.Errorf("%d heals", n)
		}
	})
}

// TestContestedDrift: another writer reverts each heal. The engine heals five times in a day, and
// reports the drift as contested. After an Instantiate it heals again.
func TestContestedDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{Observe: rsync.ObserveHeal})
		c := s.clusters.Cluster("edge", "c1")
		s.create("a", "web@c1 x=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ctx.Err() == nil {
				if s.objects("c1") != "x=2" {
					c.SetObject(object("ConfigMap", "x"), manifest("ConfigMap", "x", "2"))
				}
				time.Sleep(700 * time.Millisecond)
			}
		}()
		time.Sleep(time.Minute)
		if n := s.events("a", rsync.Heal); n != 2 {
			t.Errorf("%d heals in a minute", n)
		}
		time.Sleep(24 * time.Hour)
		if n := s.events("a", rsync.Heal); n != 5 {
			t.Errorf("%d heals in a day", n)
		}
		s.observes("a", "c1", "1/1 1: x Update .value 2 1")
		o := s.observation("a", "c1")
		if o.Reason != rsync.ReasonContested || o.Heals != 5 || !strings.Contains(o.Message, "another writer") {
			t.Errorf("%+v", o)
		}
		cancel()
		<-ended
		s.done(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(3 * time.Second)
		if o := s.observation("a", "c1"); o.Reason != "" || o.Heals != 0 || o.Drifted != 0 {
			t.Errorf("after an Instantiate: %+v", o)
		}
		c.SetObject(object("ConfigMap", "x"), nil)
		time.Sleep(5 * time.Second)
		s.shows("c1", "x=1")
	})
}

// TestRareDriftIsAlwaysHealed: drift that appears later than an hour after the last heal is not
// contested.
func TestRareDriftIsAlwaysHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{Observe: rsync.ObserveHeal})
		s.create("a", "web@c1 x=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		for range 8 {
			time.Sleep(61 * time.Minute)
			s.clusters.Cluster("edge", "c1").SetObject(object("ConfigMap", "x"), manifest("ConfigMap", "x", "2"))
			time.Sleep(5 * time.Second)
			s.shows("c1", "x=1")
		}
	})
}

// TestUpdateWaitsForHeal: an update does not apply an object while a heal of another context may
// still write the object. The heal would overwrite it with the old manifest.
func TestUpdateWaitsForHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{Observe: rsync.ObserveHeal})
		c := s.clusters.Cluster("edge", "c1")
		s.create("a", "web@c1 x=1")
		s.create("b", "web@c1 x=2")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(3 * time.Second)
		var updated, healed atomic.Bool
		c.Intercept(func(v fake.Verb, batch connector.Batch) error {
			switch {
			case v == fake.VerbApply && batch.AppContextID == "b":
				updated.Store(true)
			case v == fake.VerbApply && !healed.Load():
				time.Sleep(20 * time.Second)
				healed.Store(true)
				if updated.Load() {
					t.Error("the heal writes after the update")
				}
			}
			return nil
		})
		c.SetObject(object("ConfigMap", "x"), manifest("ConfigMap", "x", "5"))
		time.Sleep(10 * time.Second)
		s.done(s.engine.Update(t.Context(), "a", "b"))
		if !healed.Load() {
			t.Error("nothing was healed")
		}
		s.shows("c1", "x=2")
	})
}

// TestEventInvalidatesObservation: an event that begins while a cluster is read makes the result
// invalid. The engine then queues no Heal.
func TestEventInvalidatesObservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{Observe: rsync.ObserveHeal})
		c := s.clusters.Cluster("edge", "c1")
		s.create("a", "web@c1 x=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(3 * time.Second)
		var ref rsync.EventRef
		c.Intercept(func(v fake.Verb, _ connector.Batch) error {
			if v == fake.VerbDiff {
				c.Intercept(nil)
				ref = s.ref(s.engine.Terminate(t.Context(), "a"))
				s.done(ref, nil)
			}
			return nil
		})
		c.SetObject(object("ConfigMap", "x"), manifest("ConfigMap", "x", "2"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if ref.Seq == 0 {
			t.Fatal("the cluster was not read")
		}
		s.state("a", rsync.Terminated)
		s.shows("c1", "")
		if n := s.events("a", rsync.Heal); n != 0 {
			t.Errorf("%d heals of a terminated context", n)
		}
		gets := c.Count(fake.VerbGet)
		time.Sleep(time.Hour)
		if n := c.Count(fake.VerbGet); n != gets {
			t.Errorf("%d reads of a terminated context", n-gets)
		}
	})
}

// plainConnectors is a connector without the optional interfaces.
type plainConnectors struct{ connector.Connector }

// TestObserveWithoutStatusWatcher: a cluster that cannot report changes is read at each interval. A
// cluster that cannot compare has no drift.
func TestObserveWithoutStatusWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clusters := fake.New()
		connectors := connector.Func(func(ctx context.Context, provider, cluster string) (connector.Connector, error) {
			conn, err := clusters.Connector(ctx, provider, cluster)
			return plainConnectors{conn}, err
		})
		engine, stop := startEngineWith(t, memstore.New(memstore.Options{}), connectors,
			rsync.Options{Observe: rsync.ObserveHeal})
		t.Cleanup(stop)
		s := &scene{t: t, clusters: clusters, engine: engine}
		c := clusters.Cluster("edge", "c1")
		s.create("a", "web@c1 x=1 y=1")
		s.done(engine.Instantiate(t.Context(), "a"))
		time.Sleep(3 * time.Second)
		s.observes("a", "c1", "2/2 0:")
		c.SetReady(object("ConfigMap", "x"), false, false)
		c.SetObject(object("ConfigMap", "y"), manifest("ConfigMap", "y", "2"))
		time.Sleep(12 * time.Minute)
		s.observes("a", "c1", "1/2 0:")
		if o := s.observation("a", "c1"); o.Compared {
			t.Errorf("%+v", o)
		}
		gets := c.Count(fake.VerbGet)
		time.Sleep(100 * time.Minute)
		if n := c.Count(fake.VerbGet) - gets; n < 8 || n > 12 {
			t.Errorf("%d reads in ten intervals", n)
		}
	})
}

// TestUnreachableWhileObserved: the observation of a failing cluster has a reason, and keeps its
// last values. The cluster is read again after it recovers.
func TestUnreachableWhileObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{Observe: rsync.ObserveHeal})
		s.create("a", "web@c1 x=1; web@c2 x=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(3 * time.Second)
		for _, mode := range []fake.Mode{fake.ModeUnreachable, fake.ModeBlackHole, fake.ModeRefusing, fake.ModeFailing} {
			c := s.clusters.Cluster("edge", "c1")
			c.SetMode(mode)
			s.clusters.Cluster("edge", "c2").SetObject(object("ConfigMap", "x"), nil)
			time.Sleep(15 * time.Minute)
			o := s.observation("a", "c1")
			if o.Reason == "" || o.Message == "" || o.Ready != 1 {
				t.Errorf("mode %d: %+v", mode, o)
			}
			s.shows("c2", "x=1")
			c.SetMode(fake.ModeWorks)
			time.Sleep(12 * time.Minute)
			if o := s.observation("a", "c1"); o.Reason != "" || o.Ready != 1 {
				t.Errorf("after mode %d: %+v", mode, o)
			}
		}
	})
}

// TestHealFails: the cluster refuses a heal, and the event fails. The heal is retried less and less
// often, 20 to 40 times in a day.
func TestHealFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{Observe: rsync.ObserveHeal})
		c := s.clusters.Cluster("edge", "c1")
		s.create("a", "web@c1 x=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(3 * time.Second)
		c.Intercept(func(v fake.Verb, _ connector.Batch) error {
			if v == fake.VerbApply {
				return &connector.Error{Class: connector.ErrRetryable, Err: errors.New("quota exceeded")}
			}
			return nil
		})
		c.SetObject(object("ConfigMap", "x"), nil)
		time.Sleep(5 * time.Second)
		status, err := s.engine.Status(t.Context(), "a")
		if err != nil || len(status.Queue) != 2 || status.Queue[1].Status != rsync.Error ||
			!strings.Contains(status.Queue[1].Message, "quota") {
			t.Fatalf("%+v, %v", status, err)
		}
		s.state("a", rsync.Instantiated)
		time.Sleep(24 * time.Hour)
		if n := s.events("a", rsync.Heal); n < 20 || n > 40 {
			t.Errorf("%d heals in a day", n)
		}
		c.Intercept(nil)
		time.Sleep(2 * time.Hour)
		s.shows("c1", "x=1")
	})
}

// TestHealRespectsHolders: two contexts hold an object with different manifests. Heals apply only
// one of the manifests, so the contexts do not overwrite each other.
func TestHealRespectsHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{Observe: rsync.ObserveHeal})
		s.create("a", "web@c1 x=a y=a")
		s.create("b", "web@c1 x=b z=b")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.done(s.engine.Instantiate(t.Context(), "b"))
		time.Sleep(time.Hour)
		s.shows("c1", "x=a y=a z=b")
		s.observes("b", "c1", "2/2 0:")
		if a, b := s.events("a", rsync.Heal), s.events("b", rsync.Heal); a != 1 || b != 0 {
			t.Errorf("%d and %d heals", a, b)
		}
	})
}
