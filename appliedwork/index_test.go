// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// crowd is a cluster with AppliedWorks, and a tracker that finds their claims with an index.
type crowd struct {
	*fakeAPI
	t       *testing.T
	clock   *testingclock.FakePassiveClock
	tracker *appliedwork.Tracker
	works   []*v1alpha1.AppliedWork
	whole   int // number of AppliedWorks that were read completely
}

func newCrowd(t *testing.T, n int) *crowd {
	t.Helper()
	c := &crowd{fakeAPI: newFakeAPI(), t: t, clock: testingclock.NewFakePassiveClock(time.Unix(1e9, 0))}
	c.tracker, _ = newTracker(t, c.fakeAPI, func(o *appliedwork.Options) { o.Metadata, o.Clock = c.metadata(), c.clock })
	for i := range n {
		work, err := c.tracker.Ensure(t.Context(), fmt.Sprint("w", i), v1alpha1.AppliedWorkSpec{WorkName: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		c.works = append(c.works, work)
	}
	listed := 0
	c.see = func(request *http.Request, _ []byte) {
		switch path := request.URL.Path; {
		case path+"/" != inventory || request.Method != http.MethodGet || isSlim(request):
		case request.URL.Query().Has("fieldSelector"):
			c.whole++
		default:
			if !request.URL.Query().Has("continue") {
				listed = 0
			}
			page := len(c.works) + 1 - listed
			if limit, err := strconv.Atoi(request.URL.Query().Get("limit")); err == nil {
				page = min(page, limit)
			}
			listed += page
			c.whole += page
		}
	}
	return c
}

func (c *crowd) intend(work int, id v1alpha1.ResourceIdentifier) {
	c.t.Helper()
	if err := c.tracker.RecordIntent(c.t.Context(), c.works[work], id); err != nil {
		c.t.Fatal(err)
	}
}

// claimed returns the AppliedWorks that have an object, and the number of AppliedWorks that were
// read.
func (c *crowd) claimed(id v1alpha1.ResourceIdentifier) (names string, read int) {
	c.t.Helper()
	c.whole = 0
	owners, err := c.tracker.Owners(c.t.Context(), appliedwork.KeyOf(id))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, owner := range owners {
		names += owner.Name + " "
	}
	return strings.TrimSpace(names), c.whole
}

func (c *crowd) wantClaimed(id v1alpha1.ResourceIdentifier, names string, read int) {
	c.t.Helper()
	if got, n := c.claimed(id); got != names || n != read {
		c.t.Errorf("%s is claimed by %q after reading %d AppliedWorks, want %q and %d", appliedwork.KeyOf(id), got, n, names,
			read)
	}
}

func settings(name string) v1alpha1.ResourceIdentifier {
	return v1alpha1.ResourceIdentifier{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "shop",
		Name: name}
}

func TestIndex(t *testing.T) {
	t.Run("an AppliedWork is read once in each version", func(t *testing.T) {
		c := newCrowd(t, 3)
		c.intend(0, settings("a"))
		c.wantClaimed(settings("a"), "w0", 4)
		c.wantClaimed(settings("a"), "w0", 1)
		c.wantClaimed(settings("b"), "", 0)
		c.intend(1, settings("b"))
		c.wantClaimed(settings("b"), "w1", 1)
	})
	t.Run("a new entry is found", func(t *testing.T) {
		c := newCrowd(t, 3)
		c.claimed(settings("a"))
		c.intend(2, settings("a"))
		c.wantClaimed(settings("a"), "w2", 1)
	})
	t.Run("another kind of the same name is no claim", func(t *testing.T) {
		c := newCrowd(t, 3)
		c.intend(0, settings("a"))
		c.claimed(settings("a"))
		secret := v1alpha1.ResourceIdentifier{Version: "v1", Kind: "Secret", Resource: "secrets", Namespace: "shop",
			Name: "a"}
		c.wantClaimed(secret, "", 1)
	})
	t.Run("an entry without a kind is found when its kind is known", func(t *testing.T) {
		c := newCrowd(t, 3)
		id := settings("a")
		id.Kind = ""
		c.intend(1, id)
		c.ask = func() error { return errors.New("discovery does not answer") }
		c.wantClaimed(settings("a"), "", 4)
		c.ask = nil
		c.clock.SetTime(c.clock.Now().Add(time.Hour))
		c.wantClaimed(settings("a"), "w1", 1)
	})
	t.Run("a deleted AppliedWork leaves the index", func(t *testing.T) {
		c := newCrowd(t, 3)
		c.intend(0, settings("a"))
		c.claimed(settings("a"))
		if works, hashes := appliedwork.Indexed(c.tracker); works != 4 || hashes != 2 { // the object and its namespace
			t.Errorf("the index has %d AppliedWorks, %d hashes", works, hashes)
		}
		for _, work := range c.works {
			delete(c.objects, inventory+work.Name)
		}
		c.wantClaimed(settings("a"), "", 0)
		if works, hashes := appliedwork.Indexed(c.tracker); works != 1 || hashes != 0 {
			t.Errorf("the index has %d AppliedWorks, %d hashes", works, hashes)
		}
	})
	t.Run("the index does not grow beyond its limit", func(t *testing.T) {
		c := newCrowd(t, 3)
		appliedwork.LimitIndex(c.tracker, 2)
		c.wantClaimed(settings("a"), "", 4)
		c.wantClaimed(settings("a"), "", 2)
		c.intend(2, settings("a"))
		for range 2 {
			if names, _ := c.claimed(settings("a")); names != "w2" {
				t.Errorf("it is claimed by %q", names)
			}
		}
		if works, _ := appliedwork.Indexed(c.tracker); works > 2 {
			t.Errorf("the index has %d AppliedWorks", works)
		}
	})
	t.Run("a namespace with objects of another AppliedWork is in use", func(t *testing.T) {
		c := newCrowd(t, 3)
		home := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": "shop"}}}
		applier, pruner := appliedwork.NewApplier(c.tracker), appliedwork.NewPruner(c.tracker)
		if _, err := applier.Apply(t.Context(), c.works[0], []*unstructured.Unstructured{home},
			appliedwork.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		c.intend(1, settings("a"))
		for range 2 {
			changes, err := pruner.Prune(t.Context(), c.works[0], nil, appliedwork.PruneOptions{AllowEmpty: true})
			var blocked *appliedwork.PruneBlockedError
			if !errors.As(err, &blocked) || blocked.Reason != appliedwork.BlockReasonNamespaceInUse ||
				c.objects[spaces+"shop"] == nil {
				t.Errorf("%v, %v", changes, err)
			}
		}
	})
	t.Run("a version other than the listed one is an error", func(t *testing.T) {
		c := newCrowd(t, 3)
		c.claimed(settings("a"))
		c.intend(0, settings("a"))
		c.see = func(request *http.Request, _ []byte) { // the version changes after the list
			if request.URL.Query().Has("fieldSelector") {
				object := c.objects[inventory+"w0"]
				delete(object, "status")
				c.store(inventory+"w0", object)
			}
		}
		if owners, err := c.tracker.Owners(t.Context(), appliedwork.KeyOf(settings("a"))); err == nil {
			t.Errorf("the claim is lost: %v", owners)
		}
	})
}

// TestIndexReadsManyWithOneList checks that one list reads many AppliedWorks, and single
// requests read few.
func TestIndexReadsManyWithOneList(t *testing.T) {
	const n = 120
	c := newCrowd(t, n)
	c.intend(7, settings("a"))
	c.wantClaimed(settings("a"), "w7", n+1)
	for i := range 20 {
		c.intend(i, settings(fmt.Sprint("b", i)))
	}
	c.wantClaimed(settings("c"), "", 20)
}
