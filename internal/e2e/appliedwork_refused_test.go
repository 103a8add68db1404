// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/appliedwork"
)

// checkRepeatedCreate: a proxy loses the answer to a create, client-go repeats the create, and the
// API server refuses it because of the first. The object is applied, so a prune finds it.
func checkRepeatedCreate(t *testing.T, g *ground) {
	const ns = "repeated-create"
	g.create(namespaceOf(ns))
	quotas := g.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}).Namespace(ns)
	quota, err := quotas.Create(t.Context(), parsed(`{"apiVersion":"v1","kind":"ResourceQuota",
		"metadata":{"namespace":%q,"name":"q"},"spec":{"hard":{"count/configmaps":"1"}}}`, ns), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// As the controller of quotas does.
	quota.Object["status"] = parsed(`{"hard":{"count/configmaps":"1"},"used":{"count/configmaps":"0"}}`).Object
	if _, err := quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	var creates atomic.Int32
	config := g.Config()
	config.UserAgent = agentPrefix + ns
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			isCreate := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, ns+"/configmaps")
			if err == nil && isCreate && creates.Add(1) == 1 {
				_ = answer.Body.Close()
				return unavailable(), nil
			}
			return answer, err
		})
	})
	x := g.tools(config, nil)
	work, a, b := x.ensure(t, ns), configMapOf(ns, "a", "1"), configMapOf(ns, "b", "1")
	want(t, x.apply(t, work, a), "1 unchanged")
	if n := creates.Load(); n != 2 {
		t.Errorf("%d creates, want 2: client-go repeats one that is answered with Retry-After", n)
	}
	if changes, err := x.applier.Apply(t.Context(), work, objects(a, b), appliedwork.ApplyOptions{}); err == nil {
		t.Errorf("the quota is exceeded: %v", changes)
	}
	if entries, err := x.tracker.Entries(t.Context(), work); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v, want an entry for %s only", entries, err, a.GetName())
	}
	changes, err := x.pruner.Prune(t.Context(), work, nil, appliedwork.PruneOptions{AllowEmpty: true})
	if err != nil || g.get(a) != nil {
		t.Errorf("the object was not found: %v, %v", changes, err)
	}
}

// checkTooLarge: an object that is too large for the API server or for etcd leaves no entry.
func checkTooLarge(t *testing.T, g *ground) {
	g.create(namespaceOf("too-large"))
	x := g.plain(nil)
	work := x.ensure(t, "too-large")
	for _, size := range []int{1_700_000, 2_600_000, 3_500_000} {
		obj := gadgetOf("too-large", fmt.Sprint("g-", size))
		obj.Object["spec"] = map[string]any{"data": strings.Repeat("x", size)}
		_, err := x.applier.Apply(t.Context(), work, objects(obj), appliedwork.ApplyOptions{})
		if err == nil {
			t.Fatalf("an object of %d bytes was applied", size)
		}
		if entries, listErr := x.tracker.Entries(t.Context(), work); listErr != nil || len(entries) > 0 {
			t.Errorf("%d bytes: %v, %v after %.300s", size, entries, listErr, err.Error())
		}
	}
}
