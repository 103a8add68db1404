// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/kube"
)

// traffic records the requests for objects to the API server of a test: their order, and how many
// run at a time.
type traffic struct {
	mu      sync.Mutex
	order   []string
	running int
	most    int
	refuse  string // name of an object to refuse
}

func (tr *traffic) serve(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/api/v1":
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[
			{"name":"configmaps","namespaced":true,"kind":"ConfigMap","verbs":["patch"]},{"name":"secrets","namespaced":true,"kind":"Secret","verbs":["patch"]},
			{"name":"serviceaccounts","namespaced":true,"kind":"ServiceAccount","verbs":["patch"]},{"name":"namespaces","kind":"Namespace","verbs":["patch"]}]}`)
		return true
	case r.Method != http.MethodPatch && r.Method != http.MethodDelete:
		return false
	}
	name := path.Base(r.URL.Path)
	tr.mu.Lock()
	tr.order = append(tr.order, name)
	tr.running++
	tr.most = max(tr.most, tr.running)
	refused := name == tr.refuse
	tr.mu.Unlock()
	time.Sleep(50 * time.Millisecond) // so concurrent requests overlap, even on a busy machine
	tr.mu.Lock()
	tr.running--
	tr.mu.Unlock()
	if refused {
		reply(w, http.StatusUnprocessableEntity, "Invalid", "no", nil)
		return true
	}
	fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
	return true
}

// take returns the names in the order of the requests, and the highest number of concurrent
// requests. The names of each step are sorted.
func (tr *traffic) take(steps ...int) (order string, most int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	at := 0
	for _, n := range steps {
		slices.Sort(tr.order[at:min(at+n, len(tr.order))])
		at += n
	}
	order, most = strings.Join(tr.order, " "), tr.most
	tr.order, tr.most = nil, 0
	return order, most
}

// TestOrder: Apply handles Namespaces first, and Delete handles them last. Independent neighbors
// run in parallel. The other objects keep their order.
func TestOrder(t *testing.T) {
	a, tr := start(t, false), &traffic{}
	a.respond(tr.serve)
	c := open(t, kube.Cluster{Config: a.config()}, kube.Options{Concurrency: 3})
	var batch connector.Batch
	for _, o := range []string{"ConfigMap a", "Secret b", "ConfigMap c", "ConfigMap d", "ServiceAccount e", "ConfigMap f",
		"Namespace shop"} {
		kind, name, _ := strings.Cut(o, " ")
		object := appcontext.Object{Kind: kind, Namespace: "shop", Name: name}
		namespace := ", namespace: shop"
		if kind == "Namespace" {
			object.Namespace, namespace = "", ""
		}
		batch.Resources = append(batch.Resources, appcontext.Resource{
			Object: object, Manifest: fmt.Appendf(nil, "{apiVersion: v1, kind: %s, metadata: {name: %s%s}}", kind, name,
				namespace),
		})
	}
	var mu sync.Mutex
	var done []int
	batch.Progress = func(index int) {
		mu.Lock()
		defer mu.Unlock()
		done = append(done, index)
	}
	if err := c.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if order, most := tr.take(1, 4, 1, 1); order != "shop a b c d e f" || most != 3 {
		t.Errorf("applied in the order %q, at most %d at a time", order, most)
	}
	if slices.Sort(done); !slices.Equal(done, []int{0, 1, 2, 3, 4, 5, 6}) {
		t.Errorf("progress was reported of %v", done)
	}
	slices.Reverse(batch.Resources)
	if err := c.Delete(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if order, most := tr.take(1, 1, 4, 1); order != "f e a b c d shop" || most != 3 {
		t.Errorf("deleted in the order %q, at most %d at a time", order, most)
	}
	slices.Reverse(batch.Resources)
	tr.refuse, done = "b", nil
	if err := c.Apply(t.Context(), batch); !errors.Is(err, connector.ErrTerminal) ||
		!strings.Contains(err.Error(), "Secret shop/b") {
		t.Errorf("Apply returned %v", err)
	}
	if order, _ := tr.take(1, 4); strings.ContainsAny(order, "ef") || slices.Contains(done, 1) {
		t.Errorf("%q were sent although one before was refused, progress was reported of %v", order, done)
	}
}
