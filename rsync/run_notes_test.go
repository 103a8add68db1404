// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// TestStatusFollowsLongWaits: a cluster fails with a different message each second, for an hour.
// The status is at most a minute old, and is written about once a minute.
func TestStatusFollowsLongWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		var failures atomic.Int64
		s.clusters.Cluster("edge", "c1").Intercept(func(v fake.Verb, _ connector.Batch) error {
			if v != fake.VerbApply {
				return nil
			}
			return &connector.Error{Class: connector.ErrUnreachable, Err: fmt.Errorf("failure <%d>", failures.Add(1))}
		})
		s.create("a", "web@c1 x=1")
		ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
		message := func() string {
			status, err := s.engine.Status(t.Context(), "a")
			if err != nil || len(status.Clusters) != 1 {
				t.Fatalf("%+v, %v", status, err)
			}
			return status.Clusters[0].Message
		}
		time.Sleep(time.Minute)
		before := s.memory.Counts().Txns
		for range 60 {
			old := failures.Load()
			time.Sleep(time.Minute + time.Second)
			var shown int64
			if _, text, ok := strings.Cut(message(), "<"); !ok {
				t.Fatal(message())
			} else if _, err := fmt.Sscanf(text, "%d>", &shown); err != nil {
				t.Fatal(err)
			}
			if shown <= old {
				t.Fatalf("the status has failure %d, and a minute before there were %d", shown, old)
			}
		}
		if n := s.memory.Counts().Txns - before; n > 62 {
			t.Errorf("%d transactions in an hour with %d failures", n, failures.Load())
		}
		s.clusters.Cluster("edge", "c1").Intercept(nil)
		s.done(ref, nil)
	})
}
