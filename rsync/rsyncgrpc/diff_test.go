// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

// TestDiff: a client gets the difference that the engine returns, including clusters that do not
// answer.
func TestDiff(t *testing.T) {
	s, client := remote(t, rsyncgrpc.ServerOptions{})
	ctx := limited(t)
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprint("c", i))
	}
	check(t, client.Create(ctx, shop(t, "v1", "1", names...)))
	check(t, client.Create(ctx, shop(t, "v2", "2", names...)))
	must[*rsync.Status](t)(client.Wait(ctx, must[rsync.EventRef](t)(client.Instantiate(ctx, "v1"))))
	s.clusters.Cluster("edge", "c7").SetMode(fake.ModeRefusing)
	for _, event := range []struct {
		event    rsync.EventType
		id, from string
		kind     connector.ChangeKind
	}{{rsync.Update, "v2", "v1", connector.ChangeKindUpdate}, {rsync.Terminate, "v1", "", connector.ChangeKindDelete}} {
		got := must[*rsync.Diff](t)(client.Diff(ctx, event.event, event.id, event.from))
		want := must[*rsync.Diff](t)(s.engine.Diff(ctx, event.event, event.id, event.from))
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: (-engine +client)\n%s", event.event, d)
		}
		if n := got.Count(event.kind); n != 199 || !errors.Is(got.Err(), rsync.ErrFailed) ||
			got.String() != want.String() {
			t.Errorf("%s: %d changes, %v", event.event, n, got.Err())
		}
	}
}

// TestDiffErrors: errors equal those of the engine.
func TestDiffErrors(t *testing.T) {
	s, client := remote(t, rsyncgrpc.ServerOptions{})
	ctx := limited(t)
	check(t, client.Create(ctx, shop(t, "v1", "1", "c1")))
	check(t, client.Create(ctx, shop(t, "v2", "1", "c1")))
	for name, c := range map[string]struct {
		event    rsync.EventType
		id, from string
		want     error
	}{
		"no such context":             {rsync.Instantiate, "none", "", rsync.ErrNotFound},
		"no such context from":        {rsync.Update, "v1", "none", rsync.ErrNotFound},
		"an event without changes":    {rsync.Read, "v1", "", rsync.ErrInvalidInput},
		"an unknown event":            {"Install", "v1", "", rsync.ErrInvalidInput},
		"an Instantiate from another": {rsync.Instantiate, "v1", "v2", rsync.ErrInvalidInput},
		"an Update from nothing":      {rsync.Update, "v1", "", rsync.ErrInvalidInput},
		"a state that does not allow": {rsync.Update, "v2", "v1", rsync.ErrInvalidState},
		"a bad ID":                    {rsync.Instantiate, "a/b", "", rsync.ErrInvalidInput},
	} {
		_, local := s.engine.Diff(ctx, c.event, c.id, c.from)
		_, err := client.Diff(ctx, c.event, c.id, c.from)
		if !errors.Is(local, c.want) || !errors.Is(err, c.want) || err.Error() != local.Error() {
			t.Errorf("%s: %v, the engine %v", name, err, local)
		}
	}
	if _, err := client.Diff(ctx, rsync.Instantiate, "\xff", ""); !errors.Is(err, rsync.ErrInvalidInput) {
		t.Errorf("an ID that is not UTF-8: %v", err)
	}
}

// oneDiff is an engine that returns a given difference.
type oneDiff struct {
	rsyncgrpc.Engine
	diff *rsync.Diff
}

func (e oneDiff) Diff(context.Context, rsync.EventType, string, string) (*rsync.Diff, error) {
	return e.diff, nil
}

func changed(name string, fields, size int) connector.Change {
	c := connector.Change{Object: appcontext.Object{Kind: "ConfigMap", Namespace: "default", Name: name},
		Kind: connector.ChangeKindUpdate}
	for i := range fields {
		c.Fields = append(c.Fields,
			connector.FieldChange{Path: fmt.Sprint(".data.key", i), Before: "1", After: strings.Repeat("x", size)})
	}
	return c
}

func largeDiff(clusters, objects int) *rsync.Diff {
	d := &rsync.Diff{AppContextID: "a", Event: rsync.Instantiate, Clusters: []rsync.ClusterDiff{}}
	for i := range clusters {
		c := rsync.ClusterDiff{Cluster: onEdge(fmt.Sprint("c", i)), App: "web", AppContextID: "a"}
		for n := range objects {
			c.Changes = append(c.Changes, changed(fmt.Sprint("settings-", n), 2, 500))
		}
		d.Clusters = append(d.Clusters, c)
	}
	return d
}

// TestLargeDiff: a difference of any size arrives complete, even at a client with a small message
// limit.
func TestLargeDiff(t *testing.T) {
	for name, d := range map[string]*rsync.Diff{
		"many clusters": largeDiff(1000, 10), "many objects": largeDiff(2, 3000),
		"clusters without objects": largeDiff(10_000, 0), "nothing": largeDiff(0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			addr, _ := serve(t, oneDiff{diff: d}, rsyncgrpc.ServerOptions{})
			client := dial(t, addr, rsyncgrpc.ClientOptions{MaxMessageBytes: 400 << 10})
			got := must[*rsync.Diff](t)(client.Diff(limited(t), rsync.Instantiate, "a", ""))
			if !cmp.Equal(d, got) {
				t.Errorf("%d clusters arrived changed as %d", len(d.Clusters), len(got.Clusters))
			}
		})
	}
}

// TestDiffOfOtherConnector: changes of a connector beyond its limits are cut and counted. Text that
// is invalid in a message is replaced.
func TestDiffOfOtherConnector(t *testing.T) {
	d := &rsync.Diff{Clusters: []rsync.ClusterDiff{{Cluster: onEdge("c1"), App: "web", AppContextID: "a",
		Changes: []connector.Change{
			changed("large", 100, 10_000), changed("huge", 1, 40<<20),
		}}}}
	d.Clusters[0].Changes[0].FieldsOmitted = 5
	d.Clusters[0].Changes[0].Fields[0].Before = "a\xff"
	addr, _ := serve(t, oneDiff{diff: d}, rsyncgrpc.ServerOptions{})
	client := dial(t, addr, rsyncgrpc.ClientOptions{MaxMessageBytes: 400 << 10})
	got := must[*rsync.Diff](t)(client.Diff(limited(t), rsync.Instantiate, "a", "")).Clusters[0].Changes
	if len(got) != 2 || len(got[0].Fields) != 3 || got[0].FieldsOmitted != 97+5 ||
		got[0].Fields[0].Before != "a\uFFFD" ||
		len(got[1].Fields) != 0 || got[1].FieldsOmitted != 1 {
		t.Errorf("%d changes, the first with %d fields and %d omitted", len(got), len(got[0].Fields),
			got[0].FieldsOmitted)
	}
}

// TestUnreadDiff: a client that does not read its answer loses the answer, and its next call gets a
// turn.
func TestUnreadDiff(t *testing.T) {
	d := largeDiff(400, 10)
	addr, _ := serve(t, oneDiff{diff: d},
		rsyncgrpc.ServerOptions{Options: rsyncgrpc.Options{WatchLag: 3 * time.Second}})
	lazy := dial(t, addr,
		rsyncgrpc.ClientOptions{DialOptions: []grpc.DialOption{grpc.WithStaticStreamWindowSize(64 << 10)}})
	ctx := limited(t)
	stream := must[grpc.ServerStreamingClient[rsyncv1.DiffResponse]](t)(rsyncv1.NewEngineClient(lazy.Conn()).Diff(ctx,
		&rsyncv1.DiffRequest{Id: "a"}))
	must[*rsyncv1.DiffResponse](t)(stream.Recv()) // it has its turn
	client := dial(t, addr, rsyncgrpc.ClientOptions{})
	if got := must[*rsync.Diff](t)(client.Diff(ctx, rsync.Instantiate, "a", "")); !cmp.Equal(d, got) {
		t.Error("the answer after it arrived changed")
	}
	var err error
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) || status.Code(err) != codes.Aborted ||
		!strings.Contains(err.Error(), "did not read the answer") {
		t.Errorf("the answer that was not read ended with %v", err)
	}
}
