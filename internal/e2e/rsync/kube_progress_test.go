// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	kubeconnector "github.com/spokewire/sdk-go/rsync/connector/kube"
)

var manyObjects = flag.Int("rsync.objects", 2500, "how many objects TestKubeProgress applies to one cluster")

// slowKube is an engine with default options, and an API server behind a proxy.
type slowKube struct {
	t         *testing.T
	engine    *rsync.Engine
	proxy     *tcpproxy.Proxy
	site      *kubeSite
	namespace string
}

func newSlowKube(t *testing.T, roundTrip time.Duration) *slowKube {
	t.Helper()
	s := &slowKube{t: t, site: newKubeSite(t, nil, kubeconnector.Options{})}
	config, proxy := proxied(t, s.site.config)
	config.QPS, config.Burst = 0, 0 // the defaults of Options
	proxy.Delay(roundTrip / 2)
	s.proxy, s.namespace = proxy, s.site.namespace
	connectors := newKubeConnectors(t, map[string]kubeconnector.Cluster{"*": {Config: config}}, kubeconnector.Options{})
	s.engine = startEngine(t, connectors, rsync.Options{})
	return s
}

// create stores a context with n ConfigMaps.
func (s *slowKube) create(id string, n int) {
	s.t.Helper()
	createContext(s.t, s.engine, id, func(b *appcontext.Builder) {
		app := b.App("app")
		for i := range n {
			app.Resource("edge", "c1",
				[]byte(strings.ReplaceAll(manifestOf(fmt.Sprint(id, i), strings.Repeat("v", 100)), "NS", s.namespace)))
		}
	})
}

// finish waits for an event, and returns the duration of the wait.
func (s *slowKube) finish(limit time.Duration, ref rsync.EventRef, err error) time.Duration {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	began := time.Now()
	if _, err := s.engine.Wait(ctx, ref); err != nil {
		s.t.Fatal(err)
	}
	return time.Since(began)
}

// has checks the number of the context's ConfigMaps on the cluster.
func (s *slowKube) has(id string, want int) {
	s.t.Helper()
	list, err := s.site.client.CoreV1().ConfigMaps(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	got := 0
	for _, m := range list.Items {
		if strings.HasPrefix(m.Name, id) {
			got++
		}
	}
	if got != want {
		s.t.Errorf("the cluster has %d objects, want %d", got, want)
	}
}

// TestKubeProgress: batches of any size finish, on clusters of any latency, with default options.
// Each request has its own time limit. Without that, none of these batches finished.
func TestKubeProgress(t *testing.T) {
	for _, tt := range []struct {
		name      string
		objects   int
		roundTrip time.Duration
		limit     time.Duration
	}{
		{"many objects", *manyObjects, 0, 10 * time.Minute},
		{"far away", 250, 150 * time.Millisecond, time.Minute},
		{"slower than a second", 10, 2 * time.Second, 2 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSlowKube(t, tt.roundTrip)
			s.create("a", tt.objects)
			ref, err := s.engine.Instantiate(t.Context(), "a")
			applied := s.finish(tt.limit, ref, err)
			s.has("a", tt.objects)
			ref, err = s.engine.Read(t.Context(), "a")
			read := s.finish(tt.limit, ref, err)
			ref, err = s.engine.Terminate(t.Context(), "a")
			deleted := s.finish(tt.limit, ref, err)
			s.has("a", 0)
			t.Logf("%d objects at %s a round trip: applied in %s, read in %s, deleted in %s", tt.objects, tt.roundTrip, applied,
				read, deleted)
		})
	}
}

// TestKubeProgressSpeed applies 1,000 objects at 50 ms a round trip.
func TestKubeProgressSpeed(t *testing.T) {
	s := newSlowKube(t, 50*time.Millisecond)
	s.create("a", 1000)
	ref, err := s.engine.Instantiate(t.Context(), "a")
	took := s.finish(time.Minute, ref, err)
	s.has("a", 1000)
	t.Logf("1000 objects at 50 ms a round trip: %s", took)
	if took > 10*time.Second && !raceEnabled {
		t.Errorf("it took %s", took)
	}
}

// TestKubeWaitNamesTheReason: if a cluster is unreachable, Wait reports the attempt and the reason
// of its failure.
func TestKubeWaitNamesTheReason(t *testing.T) {
	t.Parallel()
	s := newSlowKube(t, 0)
	s.proxy.Block()
	s.create("a", 1)
	ref, err := s.engine.Instantiate(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = s.engine.Wait(ctx, ref)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "app on edge+c1: Unreachable: ") ||
		!strings.Contains(err.Error(), "no connection") || strings.Contains(err.Error(), "*fmt.") {
		t.Errorf("Wait returned %v", err)
	}
}

// TestKubeStoppedNetwork: a network that drops all packets for some time delays a large batch, and
// no part of the batch is repeated.
func TestKubeStoppedNetwork(t *testing.T) {
	t.Parallel()
	s := newSlowKube(t, 20*time.Millisecond)
	s.create("a", 1500)
	ref, err := s.engine.Instantiate(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	s.proxy.Stall()
	time.Sleep(15 * time.Second) // longer than Options.ProbeTimeout
	s.proxy.Resume()
	s.finish(2*time.Minute, ref, nil)
	s.has("a", 1500)
}
