// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/kube"
)

// TestList: one list reads many objects of a kind. If the list is refused, too large, not readable
// or incomplete, single requests read the objects, with the same result.
func TestList(t *testing.T) {
	const maps, n = "/api/v1/namespaces/shop/configmaps", 12
	var batch connector.Batch
	for i := range n {
		batch.Resources = append(batch.Resources, configMap(fmt.Sprint("m", i)).Resources...)
	}
	items := func(names ...int) string {
		var all []string
		for _, i := range names {
			all = append(all, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m%d","namespace":"shop"}}`,
				i))
		}
		return strings.Join(all, ",")
	}
	list := func(page, items string) string {
		return `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":"` + page + `"},"items":[` + items + `]}`
	}
	even := items(0, 2, 4, 6, 8, 10)
	for _, tt := range []struct {
		reason string
		answer func(w http.ResponseWriter, r *http.Request)
		gets   int // requests for single objects
	}{
		{"the whole", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, list("", even)) }, 0},
		{"one page of several", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, list("more", items(0, 2, 4))) },
			n - 3},
		{"two pages", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("continue") == "more" {
				fmt.Fprint(w, list("", items(6, 8, 10)))
				return
			}
			fmt.Fprint(w, strings.Replace(list("more", items(0, 2, 4)), `"continue"`, `"remainingItemCount":3,"continue"`, 1))
		}, 0},
		{"a page of many others", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Replace(list("more", items(0, 2, 4)), `"continue"`, `"remainingItemCount":451,"continue"`, 1))
		}, n - 3},
		{"access is denied",
			func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusForbidden, "Forbidden", "no", nil) }, n},
		{"the server has no lists", func(w http.ResponseWriter, _ *http.Request) {
			reply(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "no", nil)
		}, n},
		{"more than MaxResponseBytes",
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, list("", even), strings.Repeat(" ", 5000)) }, n},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{") }, n},
		{"something else", func(w http.ResponseWriter,
			_ *http.Request) {
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1"}`)
		}, n},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			a := start(t, false)
			c := open(t, kube.Cluster{Config: a.config()}, kube.Options{MaxResponseBytes: 4000})
			for i := 0; i < n; i += 2 {
				if err := c.Apply(t.Context(), configMap(fmt.Sprint("m", i))); err != nil {
					t.Fatal(err)
				}
			}
			a.mu.Lock()
			a.seen = nil
			a.mu.Unlock()
			a.respond(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != maps {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				tt.answer(w, r)
				return true
			})
			states, err := c.Get(t.Context(), batch)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range states {
				if s.Object != batch.Resources[i].Object || s.Exists != (i%2 == 0) || s.Ready != s.Exists {
					t.Errorf("%+v", s)
				}
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			gets := 0
			for _, request := range a.seen {
				if strings.HasPrefix(request, "GET "+maps+"/") {
					gets++
				}
			}
			if gets != tt.gets {
				t.Errorf("%d objects were asked for alone, want %d", gets, tt.gets)
			}
		})
	}
	// After a failed list, the connector does not send twelve single requests.
	a := start(t, false)
	a.respond(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == maps {
			reply(w, http.StatusInternalServerError, "InternalError", "s3cr3t", nil)
		}
		return r.URL.Path == maps
	})
	_, err := open(t, kube.Cluster{Config: a.config()}, kube.Options{}).Get(t.Context(), batch)
	refused(t, err, connector.ErrRetryable, "list: HTTP 500")
	// An answer of another kind, for example from a proxy, does not count as the object.
	b := start(t, false)
	b.respond(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, maps) {
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","metadata":{"name":"a"}}`)
		}
		return strings.HasPrefix(r.URL.Path, maps)
	})
	_, err = open(t, kube.Cluster{Config: b.config()}, kube.Options{}).Get(t.Context(), configMap("a"))
	refused(t, err, connector.ErrRetryable, "the answer is not an object")
}
