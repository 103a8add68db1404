// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// TestEtcdNeedsAutoCompaction: an engine processes the same events on two etcds with the same
// quota. Without auto-compaction, which is etcd's default, each past value of a key stays. Then
// etcd has no space in the end, and Healthy fails. With auto-compaction etcd stays below its quota
// for three times as many events.
func TestEtcdNeedsAutoCompaction(t *testing.T) {
	const quota, atMost = 8 << 20, 3000
	filled := 0
	for _, retention := range []string{"", "1s"} {
		t.Run("retention "+retention, func(t *testing.T) {
			etcd := startEtcd(t, 1, func(c *embed.Config) {
				c.QuotaBackendBytes = quota
				if retention != "" {
					c.AutoCompactionMode, c.AutoCompactionRetention = embed.CompactorModePeriodic, retention
				}
			})
			engine := startFleetReader(t, etcd)
			size := func() int64 { return etcd.members[0].Server.Backend().Size() }
			events := 0
			var failure error
			for limit := 3 * filled; failure == nil && (filled == 0 && events < atMost || events < limit); events++ {
				failure = readOnce(t, engine)
			}
			t.Logf("%d events, etcd has %.1f MiB of %d, Healthy %v", events, float64(size())/(1<<20), quota>>20,
				engine.Healthy())
			if retention == "" {
				filled = events
				if !errors.Is(failure, rpctypes.ErrNoSpace) {
					t.Errorf("after %d events: %v, want %v", events, failure, rpctypes.ErrNoSpace)
				}
				return
			}
			if failure != nil || size() >= quota {
				t.Errorf("after %d events etcd has %d of %d bytes: %v", events, size(), quota, failure)
			}
		})
	}
}

// startFleetReader starts an engine with an instantiated context of 200 objects.
func startFleetReader(t *testing.T, etcd *cluster) *rsync.Engine {
	t.Helper()
	engine, err := rsync.New(etcd.store(t, ""), fake.New(), rsync.Options{LeaseTTL: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	start(t, engine)
	b := appcontext.NewBuilder("fleet")
	for i := range 200 {
		b.App("web").Resource("edge", "c1", manifest(fmt.Sprint("settings", i)))
	}
	spec, err := b.Build()
	if err == nil {
		err = engine.Create(t.Context(), spec)
	}
	if err == nil {
		var ref rsync.EventRef
		if ref, err = engine.Instantiate(t.Context(), "fleet"); err == nil {
			_, err = engine.Wait(t.Context(), ref)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// readOnce queues a Read and waits until it is done or Healthy fails. The status of a Read has the
// state of each object.
func readOnce(t *testing.T, engine *rsync.Engine) error {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	go func() { // a Wait does not end while the engine cannot write
		for ctx.Err() == nil {
			if err := engine.Healthy(); err != nil {
				cancel(err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	ref, err := engine.Read(ctx, "fleet")
	if err == nil {
		if _, err = engine.Wait(ctx, ref); err == nil {
			return nil
		}
	}
	if ctx.Err() == nil && !errors.Is(err, rpctypes.ErrNoSpace) {
		return err
	}
	waitFor(t, "Healthy to fail", func() bool { return engine.Healthy() != nil })
	return engine.Healthy()
}
