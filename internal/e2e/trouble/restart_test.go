// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// file is a store that successive processes open.
type file struct {
	t    *testing.T
	path string
	open *boltstore.Store
}

func newFile(t *testing.T) *file {
	f := &file{t: t, path: filepath.Join(t.TempDir(), "works.db")}
	t.Cleanup(f.close)
	return f
}

// store opens the file again, like the next process.
func (f *file) store() work.Store {
	f.t.Helper()
	f.close()
	s, err := boltstore.Open(f.path, boltstore.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.open = s
	return s
}

func (f *file) close() {
	if f.open == nil {
		return
	}
	if err := f.open.Close(); err != nil {
		f.t.Error(err)
	}
	f.open = nil
}

// TestTrouble02SourceRestartsWithoutStore: the source requests everything, and deletes no unknown
// work until its inventory is complete. A work that it creates again has its status immediately,
// and is not applied again.
func TestTrouble02SourceRestartsWithoutStore(t *testing.T) {
	t.Parallel()
	s := newScene(t, mosquitto.Options{})
	h := s.source(work.SourceOptions{})
	h.inventoryComplete()
	a := s.agent(work.AgentOptions{})
	a.apply()
	for _, name := range []string{"changed", "equal", "forgotten", "other"} {
		h.create("cluster1", name, "1")
	}
	h.set("cluster1", "equal", "2")
	before := "changed=1/1 equal=2/2 forgotten=1/1 other=1/1"
	shows(t, "the source before its restart", h.works("cluster1"), before)
	h.crash()

	wire := newTap(s, nil)
	spy := spyOn(t, a.works())
	h = s.source(work.SourceOptions{})
	wire.hears("an empty list to all agents", func(m heard) bool {
		l := m.hashes()
		return l != nil && m.topic == "/sources/hub/resync/clusters/manifestsstatus" && l.Scope == codec.ScopeAll &&
			len(l.Entries) == 0
	})
	wire.hears("the agent's list in answer", func(m heard) bool { return m.list() != nil && len(m.list().Entries) == 4 })
	h.create("cluster1", "marker", "1") // when its status arrives, all earlier messages are processed
	shows(t, "the source without its works", h.works("cluster1"), "marker=1/1")
	shows(t, "the agent of a source without its works", a.works(), before[:len("changed=1/1 equal=2/2 forgotten=1/1 ")]+
		"marker=1/1 other=1/1")

	h.create("cluster1", "equal", "2")
	h.create("cluster1", "changed", "3")
	h.create("cluster1", "other", "1")
	shows(t, "the source with works anew", h.works("cluster1"), "changed=3/3 equal=2/2 marker=1/1 other=1/1")
	for name, want := range map[string][]string{"equal": {"2"}, "other": {"1"}, "changed": {"1", "3"},
		"forgotten": {"1"}} {
		if diff := cmp.Diff(want, spy.now().values(name)); diff != "" {
			t.Errorf("values of %s at the agent (-want +got):\n%s", name, diff)
		}
	}
	if got := spy.now().of("other"); len(got) != 1 {
		t.Errorf("what is equal in everything was touched: %v", got)
	}
	if got := wire.that(func(m heard) bool { return m.spec() != nil && m.spec().DeletionTimestamp != nil }); len(
		got) != 0 {
		t.Errorf("a deletion on the wire: %s", got[0].payload)
	}

	h.inventoryComplete()
	shows(t, "the agent after the inventory", a.works(), "changed=3/3 equal=2/2 marker=1/1 other=1/1")
}

// TestTrouble02SourceRestartsWithStore: all works exist before the first message arrives, and the
// agent sees no change.
func TestTrouble02SourceRestartsWithStore(t *testing.T) {
	t.Parallel()
	s := newScene(t, mosquitto.Options{})
	works := newFile(t)
	h := s.source(work.SourceOptions{Store: works.store()})
	h.inventoryComplete()
	a := s.agent(work.AgentOptions{})
	a.apply()
	for i := range 5 {
		h.create("cluster1", fmt.Sprintf("w%d", i), "1")
	}
	all := "w0=1/1 w1=1/1 w2=1/1 w3=1/1 w4=1/1"
	shows(t, "the source before its restart", h.works("cluster1"), all)
	h.leave()
	h.set("cluster1", "w1", "2") // while no agent receives it
	h.delete("cluster1", "w2")
	spy := spyOn(t, a.works())
	h.crash()

	h = s.newSource(work.SourceOptions{Store: works.store()})
	if got := state(t, h.works("cluster1")); got != "-w2=1/1 w0=1/1 w1=2/1 w3=1/1 w4=1/1" {
		t.Errorf("before Start the source shows %q", got)
	}
	a.leave()
	a.report("w3", "1, while the source was away")
	a.comeBack()
	h.start(h.Source)
	shows(t, "the source after its restart", h.works("cluster1"), "w0=1/1 w1=2/2 w3=1/1, while the source was away w4=1/1")
	for _, name := range []string{"w0", "w4"} {
		if got := spy.now().of(name); len(got) != 1 {
			t.Errorf("%s, which nobody touched, was touched: %v", name, got)
		}
	}

	h.crash()
	works.close()
	h = s.source(work.SourceOptions{}) // starts without works, and leaves a work that the file lacks
	h.create("cluster1", "stray", "1")
	shows(t, "the source beside the store", h.works("cluster1"), "stray=1/1")
	h.crash()
	h = s.source(work.SourceOptions{Store: works.store()})
	shows(t, "a store that is older than the agent's works", a.works(),
		"stray=1/1 w0=1/1 w1=2/2 w3=1/1, while the source was away w4=1/1")
	eventually(t, "the source detects the older store", func() string {
		if err := h.Healthy(); err == nil || !strings.Contains(err.Error(), "the Store is older") {
			return fmt.Sprint(err)
		}
		return ""
	})
	h.inventoryComplete() // because unknown works are not deleted earlier
	shows(t, "the agent after the inventory", a.works(), "w0=1/1 w1=2/2 w3=1/1, while the source was away w4=1/1")
	shows(t, "the source in the end", h.works("cluster1"), "w0=1/1 w1=2/2 w3=1/1, while the source was away w4=1/1")
}
