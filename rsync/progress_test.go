// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
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
)

// many returns the text of an app with n objects on a cluster, for parse.
func many(app, cluster string, n int) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s@%s", app, cluster)
	for i := range n {
		fmt.Fprintf(&s, " o%d=1", i)
	}
	return s.String()
}

// TestLargeBatchFinishes: a batch of 40 minutes is a single call, on a cluster with requests that
// take longer than a second.
func TestLargeBatchFinishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		c := s.clusters.Cluster("edge", "c1")
		c.SetLatency(2 * time.Second)
		s.create("a", many("web", "c1", 1200))
		ref, err := s.engine.Instantiate(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.engine.Wait(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		if ref, err = s.engine.Terminate(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.engine.Wait(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		if c.Count(fake.VerbApply) != 1 || c.Count(fake.VerbDelete) != 1 || len(c.Objects()) != 0 {
			t.Errorf("%d calls of Apply and %d of Delete, %d objects are left", c.Count(fake.VerbApply),
				c.Count(fake.VerbDelete), len(c.Objects()))
		}
	})
}

// TestRetryContinues: a repeated call has only the remaining resources. Retries with progress
// between them are not counted.
func TestRetryContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{MaxRetries: 2})
		c := s.clusters.Cluster("edge", "c1")
		c.SetLatency(100 * time.Millisecond)
		s.create("a", many("web", "c1", 100))
		ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
		for range 8 { // about ten objects per second
			time.Sleep(time.Second)
			c.SetMode(fake.ModeFailing)
			time.Sleep(200 * time.Millisecond)
			c.SetMode(fake.ModeWorks)
		}
		s.done(ref, nil)
		seen := map[appcontext.Object]int{}
		for _, call := range c.Calls() {
			seen[call.Object]++
		}
		for o, n := range seen {
			if n != 1 {
				t.Errorf("%s was applied %d times", o, n)
			}
		}
		if len(seen) != 100 || c.Count(fake.VerbApply) < 8 {
			t.Errorf("%d objects were applied in %d calls", len(seen), c.Count(fake.VerbApply))
		}
	})
}

// TestFailedProbeWhileCallsSucceed: a failed probe does not cancel successful calls, and does not
// make the cluster unreachable.
func TestFailedProbeWhileCallsSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		c := s.clusters.Cluster("edge", "c1")
		c.SetLatency(5 * time.Second)
		c.Intercept(func(v fake.Verb, _ connector.Batch) error {
			if v == fake.VerbProbe {
				return &connector.Error{Class: connector.ErrUnreachable, Err: errors.New("probes are refused")}
			}
			return nil
		})
		s.create("a", many("web", "c1", 20))
		s.done(s.engine.Instantiate(t.Context(), "a"))
		if c.Count(fake.VerbApply) != 1 || c.Count(fake.VerbProbe) == 0 {
			t.Errorf("%d calls, %d probes", c.Count(fake.VerbApply), c.Count(fake.VerbProbe))
		}
	})
}

// TestSlowProbes: a cluster that answers probes after three seconds is reachable.
func TestSlowProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		c := s.clusters.Cluster("edge", "c1")
		c.SetLatency(3 * time.Second)
		c.SetMode(fake.ModeUnreachable)
		s.create("a", "web@c1 x=1")
		ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(time.Minute)
		c.SetMode(fake.ModeWorks)
		began := time.Now()
		s.done(ref, nil)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %s until the cluster was found to be back", took)
		}
		probes := c.Probes()
		for i := range probes[1:] {
			if d := probes[i+1].Sub(probes[i]); d < time.Second {
				t.Errorf("probe %d and the next are %s apart", i, d)
			}
		}
	})
}

// TestCallWithoutProgress: a call that stops in the middle is cancelled with a reason. It continues
// when the cluster answers again.
func TestCallWithoutProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{CallTimeout: 20 * time.Second})
		c := s.clusters.Cluster("edge", "c1")
		c.SetLatency(time.Millisecond)
		hang := make(chan struct{})
		stuck := &stuckConnector{Clusters: s.clusters, hang: hang}
		engine, stop := startEngineWith(t, s.memory, stuck, rsync.Options{CallTimeout: 20 * time.Second})
		s.stop()
		defer stop()
		s.create("a", many("web", "c1", 10))
		ref := s.ref(engine.Instantiate(t.Context(), "a"))
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		status, err := engine.Wait(ctx, ref)
		var unfinished *rsync.UnfinishedError
		if !errors.As(err, &unfinished) || !errors.Is(err, context.DeadlineExceeded) || status == nil ||
			!strings.Contains(err.Error(),
				"web on edge+c1: Unreachable: the cluster does not answer: apply made no progress for 20s") {
			t.Fatalf("Wait returned %v", err)
		}
		close(hang)
		if _, err := engine.Wait(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		if n := len(c.Calls()); n != 10 {
			t.Errorf("%d objects were applied, want each of 10 once", n)
		}
	})
}

// stuckConnector is a connector that hangs in the middle of each Apply, until hang is closed.
type stuckConnector struct {
	*fake.Clusters
	hang chan struct{}
}

func (s *stuckConnector) Connector(ctx context.Context, provider, cluster string) (connector.Connector, error) {
	c, err := s.Clusters.Connector(ctx, provider, cluster)
	return &stuckConn{c, s.hang}, err
}

type stuckConn struct {
	connector.Connector
	hang chan struct{}
}

func (s *stuckConn) Apply(ctx context.Context, batch connector.Batch) error {
	half := batch
	half.Resources = batch.Resources[:(len(batch.Resources)+1)/2]
	if err := s.Connector.Apply(ctx, half); err != nil || len(half.Resources) == len(batch.Resources) {
		return err
	}
	select {
	case <-s.hang:
		return errors.New("again")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestManyResources: ten thousand objects of an app on a cluster are stored, applied, read and
// deleted.
func TestManyResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		s := newScene(t, nil, rsync.Options{})
		b := appcontext.NewBuilder("a")
		for i := range n {
			b.App("web").Resource("edge", "c1",
				fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: o%d, namespace: default}\ndata: {k: %q}\n", i,
					strings.Repeat("v", 120)))
		}
		want, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.engine.Create(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		s.done(s.engine.Instantiate(t.Context(), "a"))
		c := s.clusters.Cluster("edge", "c1")
		if got := len(c.Objects()); got != n {
			t.Fatalf("the cluster has %d objects", got)
		}
		c.SetReady(object("ConfigMap", "o9999"), false, true)
		read := s.done(s.engine.Read(t.Context(), "a")).Clusters[0]
		unready := 0
		for _, r := range read.Resources {
			if !r.Ready {
				unready++
			}
		}
		if got := len(read.Resources) + read.ResourcesOmitted; got != n || read.ResourcesOmitted == 0 || unready != 1 {
			t.Errorf("Read shows %d resources, of which %d are not ready, and omits %d", len(read.Resources), unready,
				read.ResourcesOmitted)
		}
		s.done(s.engine.Terminate(t.Context(), "a"))
		if got := len(c.Objects()); got != 0 {
			t.Errorf("%d objects are left", got)
		}
	})
}
