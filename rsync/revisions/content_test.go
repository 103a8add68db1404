// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package revisions_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/revisions"
	"github.com/spokewire/sdk-go/rsync/store"
)

// TestContentOfRevision checks that the stored content of a revision is the content that was set,
// and that a rollback to it uses the revision again.
func TestContentOfRevision(t *testing.T) {
	f := newFixture(t)
	f.start()
	first := f.target("a=1", "c1", "c2")
	first.By = "ann"
	f.Set("shop", first)
	f.settle()
	f.Set("shop", f.target("a=2", "c1"))
	f.settle()
	f.stop()
	f.start()
	content, err := f.Content(t.Context(), "shop", 1)
	if err != nil {
		t.Fatal(err)
	}
	source, _ := content.Source.(json.RawMessage)
	if content.Digest() != first.Content.Digest() || content.SourceDigest() != first.Content.SourceDigest() ||
		string(source) != `"a=1"` {
		t.Errorf("%s, source %s", content.Digest(), source)
	}
	f.Set("shop", revisions.Target{Content: content, Revision: 1})
	f.settle()
	f.has("c2", "a=1")
	if got := f.revisions(); got != "1 2, wanted 1" {
		t.Errorf("revisions %s", got)
	}
	all, _, err := f.Revisions(t.Context(), "shop")
	if err != nil || all[0].By != "ann" || all[0].Cause != "a=1" || all[0].Clusters != 2 || all[1].Clusters != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := f.Content(t.Context(), "shop", 3); !errors.Is(err, rsync.ErrNotFound) {
		t.Errorf("%v for a missing revision", err)
	}
}

// TestStoredForm checks that a manager continues with the records that version 0.1 has stored, and
// TestSameTargetKeepsCause checks that a target with the same content does not replace the cause and
// the user of the waiting one.
func TestSameTargetKeepsCause(t *testing.T) {
	f := newFixture(t)
	f.open()
	byAnn := f.target("a=1", "c1")
	byAnn.Cause, byAnn.By = "the application has changed", "ann"
	f.Set("shop", byAnn)
	again := f.target("a=1", "c1")
	again.Cause = "rendered again"
	f.Set("shop", again)
	f.run()
	defer f.stop()
	f.settle()
	all, _, err := f.Revisions(t.Context(), "shop")
	if err != nil || len(all) != 1 || all[0].By != "ann" || all[0].Cause != byAnn.Cause {
		t.Errorf("%+v, %v", all, err)
	}
}

// that the digests have not changed: each application would get another revision.
func TestStoredForm(t *testing.T) {
	f := newFixture(t)
	f.options.Prefix = "/hub/"
	const digest, sourceDigest = "be85602ee50aa5dccabee8a23d8b2659", "abb9ce555efcea192da6d4bd24527c6c"
	const record = `{"next":2,"wanted":1,"reached":true,"revisions":[{"number":1,"digest":"` + digest +
		`","content":"` + sourceDigest + `","cause":"first","created":"2026-01-02T03:04:05Z","clusters":1}]}`
	target := f.target("a=1", "c1")
	target.Content.Source = struct {
		Document json.RawMessage   `json:"document"`
		Values   map[string]string `json:"values,omitempty"`
	}{json.RawMessage(`{"kind":"Application"}`), map[string]string{"Secret x/s, key k": "v"}}
	if target.Content.Digest() != digest || target.Content.SourceDigest() != sourceDigest {
		t.Errorf("digest %s, source %s", target.Content.Digest(), target.Content.SourceDigest())
	}
	const source = `{"document":{"kind":"Application"},"values":{"Secret x/s, key k":"v"}}`
	if _, err := f.store.Txn(t.Context(), nil, []store.Op{
		store.Put("/hub/rollout/shop/", []byte(record)), store.Put("/hub/revision/shop/1/", []byte(source)),
	}); err != nil {
		t.Fatal(err)
	}
	f.start()
	f.Set("shop", target)
	f.settle()
	all, wanted, err := f.Revisions(t.Context(), "shop")
	if err != nil || wanted != 1 || len(all) != 1 || all[0].Cause != "first" || all[0].Source != sourceDigest {
		t.Errorf("%+v, wanted %d, %v", all, wanted, err)
	}
	stored, err := f.Source(t.Context(), "shop", 1)
	if err != nil || string(stored) != source {
		t.Errorf("%s, %v", stored, err)
	}
}

// TestInvalidName checks that an application with a name that no key may have fails, and stores
// nothing.
func TestInvalidName(t *testing.T) {
	f := newFixture(t)
	f.start()
	const name = "shop/1"
	f.Set(name, f.target("a=1", "c1"))
	f.until("it has failed", func() bool { s, _ := f.Status(name); return s.State == revisions.Failed })
	if s, _ := f.Status(name); !strings.Contains(s.Message, name) {
		t.Errorf("%+v", s)
	}
	if left, err := f.store.Range(t.Context(), "/revisions/"); err != nil || len(left.KVs) > 0 {
		t.Errorf("%v, %v", left.KVs, err)
	}
}

// TestStartedEngine checks that a manager refuses to start twice, and
// with an engine that the caller has started.
func TestStartedEngine(t *testing.T) {
	f := newFixture(t)
	f.start()
	f.Set("shop", f.target("a=1", "c1"))
	f.settle()
	if err := f.Start(t.Context()); !errors.Is(err, rsync.ErrInvalidInput) {
		t.Errorf("started twice: %v", err)
	}
	f.stop()
	f.open()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.Engine().Start(ctx) }()
	<-f.Engine().Ready()
	f.Set("shop", f.target("a=1", "c1"))
	if err := f.Start(t.Context()); !errors.Is(err, rsync.ErrInvalidInput) {
		t.Errorf("%v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestInvalidOptions(t *testing.T) {
	f := newFixture(t)
	for field, o := range map[string]revisions.Options{
		"Prefix": {Prefix: "hub"}, "Keep": {Keep: -1}, "Patience": {Patience: -1},
		"Engine.Transitions": {Engine: rsync.Options{Transitions: rsync.TransitionsSeed}},
	} {
		_, err := revisions.New(f.store, f.clusters, o)
		if !errors.Is(err, rsync.ErrInvalidInput) || !strings.Contains(err.Error(), "invalid Options."+field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := revisions.New(nil, f.clusters, revisions.Options{}); !errors.Is(err, rsync.ErrInvalidInput) {
		t.Errorf("without a store: %v", err)
	}
}
