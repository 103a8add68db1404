// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// parts returns an application with a number of objects.
func parts(name, value string, objects int) string {
	out := "kind: Application\nmetadata: {name: " + name +
		"}\nspec:\n  parts:\n  - name: main\n    manifests:\n    - template: |\n"
	for i := range objects {
		out += fmt.Sprintf(
			"        ---\n        {apiVersion: v1, kind: ConfigMap, metadata: {name: %s-%d, namespace: x}, data: {v: %q}}\n",
			name,
			i,
			value,
		)
	}
	return out
}

// TestOthersAreNotRendered checks that a change of one application does not render other
// applications again. A change of a cluster renders all of its applications.
func TestOthersAreNotRendered(t *testing.T) {
	f := fixtureOf(t)
	var checks atomic.Int32
	f.check = func(string) { checks.Add(1) }
	f.start()
	put := func(text string, want int32) {
		t.Helper()
		before := checks.Load()
		if err := f.put(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		if got := checks.Load() - before; got != want {
			t.Errorf("rendered for %d clusters, want %d: %.60q", got, want, text)
		}
	}
	put(parts("a", "1", 1), 0)
	put(parts("b", "1", 1), 0)
	put("kind: Cluster\nmetadata: {name: c1}\n", 0)
	put("kind: Placement\nmetadata: {name: p}\nspec: {applications: [a, b], clusters: {selector: {}}}\n", 2)
	put(parts("a", "2", 1), 1)
	put(parts("b", "2", 1), 1)
	put(parts("b", "2", 1), 0)
	put("kind: Cluster\nmetadata: {name: c1, labels: {a: b}}\n", 2)
	put("kind: Cluster\nmetadata: {name: c2}\n", 4)
}

// TestLargeDocumentsDoNotDelayOthers checks that other documents can change while a large document
// is rendered.
func TestLargeDocumentsDoNotDelayOthers(t *testing.T) {
	f := fixtureOf(t)
	var blocks atomic.Bool
	rendering, release := make(chan struct{}), make(chan struct{})
	f.check = func(string) {
		if blocks.CompareAndSwap(true, false) {
			close(rendering)
			<-release
		}
	}
	f.start()
	for _, text := range []string{
		parts("a", "1", 1), parts("b", "1", 1), "kind: Cluster\nmetadata: {name: c1}\n",
		"kind: Placement\nmetadata: {name: p}\nspec: {applications: [a, b], clusters: {selector: {}}}\n",
	} {
		if err := f.put(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	blocks.Store(true)
	large := make(chan error)
	go func() { large <- f.put(t.Context(), parts("a", "2", 1000)) }()
	<-rendering
	small := make(chan error)
	go func() { small <- f.put(t.Context(), parts("b", "2", 1)) }()
	late := time.AfterFunc(10*time.Second, func() {
		t.Error("a small document waits for a large one")
		close(release)
	})
	if err := <-small; err != nil {
		t.Error(err)
	}
	if late.Stop() {
		close(release)
	}
	if err := <-large; err != nil {
		t.Error(err)
	}
}

// TestMaxMemory checks the common limit of all documents and their objects. A change that needs
// less memory than before is accepted above the limit.
func TestMaxMemory(t *testing.T) {
	f := fixtureOf(t)
	f.memory = 1 << 20
	f.start()
	large := func(name string) string {
		return strings.Replace(parts(name, "1", 0), "template: |\n", "template: '# "+strings.Repeat("x", 300_000)+"'\n", 1)
	}
	if err := f.put(t.Context(), large("large1")); err != nil {
		t.Fatal(err)
	}
	if err := f.put(t.Context(), large("large2")); err == nil {
		t.Error("documents without a placement are accepted above the limit")
	}
	if err := f.Delete(t.Context(), document.Key{Kind: document.ApplicationKind, Name: "large1"}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		parts("a", "1", 150), parts("b", "1", 150), "kind: Cluster\nmetadata: {name: c1}\n",
		"kind: Placement\nmetadata: {name: p}\nspec: {applications: [a, b], clusters: {selector: {}}}\n",
	} {
		if err := f.put(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	const want = "spec: all documents and their objects need 2 MiB of memory, more than 1 MiB: reduce the objects, " +
		"or start the hub with a higher --max-memory; Application b needs most, 1 MiB"
	if err := f.put(t.Context(), parts("b", "1", 250)); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if err := f.put(t.Context(), "kind: Cluster\nmetadata: {name: c2}\n"); err == nil {
		t.Error("a second cluster for the same objects is accepted")
	}
	f.stop()
	f.memory = 1 << 19
	f.start()
	if err := f.put(t.Context(), parts("a", "1", 149)); err != nil {
		t.Errorf("a smaller application: %v", err)
	}
	if err := f.put(t.Context(), parts("a", "1", 151)); err == nil {
		t.Error("a larger application is accepted")
	}
}

// checked returns a check that first calls before.
func checked(
	check func(context.Context, string, []appcontext.Resource) error, before func(cluster string),
) func(context.Context, string, []appcontext.Resource) error {
	return func(ctx context.Context, cluster string, resources []appcontext.Resource) error {
		if before != nil {
			before(cluster)
		}
		return check(ctx, cluster, resources)
	}
}
