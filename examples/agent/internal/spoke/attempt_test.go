// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spoke_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
)

// records starts an API server that serves only AppliedWorks.
func records(t *testing.T) *httptest.Server {
	t.Helper()
	var mu sync.Mutex
	works := map[string]*v1alpha1.AppliedWork{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		sent := &v1alpha1.AppliedWork{}
		if len(body) > 0 {
			if err := json.Unmarshal(body, sent); err != nil {
				t.Error(err)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		record := works[path.Base(r.URL.Path)]
		switch {
		case r.Method == http.MethodPost:
			sent.UID, sent.ResourceVersion = types.UID("uid of "+sent.Name), "1"
			works[sent.Name], record = sent, sent
		case record == nil:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{"name":"x"}}`))
			return
		case r.Method == http.MethodPatch:
			if record.Annotations == nil {
				record.Annotations = map[string]string{}
			}
			maps.Copy(record.Annotations, sent.Annotations)
		}
		if err := json.NewEncoder(w).Encode(record); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// TestWorkThatEndsAgentIsPostponed checks that the next agent postpones a work that was being
// served when the agent ended. The delay grows with each end. Other works are not postponed.
func TestWorkThatEndsAgentIsPostponed(t *testing.T) {
	server := records(t)
	start := func() *spoke.Cluster {
		c, err := spoke.New(spoke.Options{Config: &rest.Config{Host: server.URL}, Hub: "hub",
			Origin: spoke.Origin{Address: "https://hub"}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	work := func(name string, generation int64) *workv1.ManifestWork {
		w := &workv1.ManifestWork{}
		w.Namespace, w.Name, w.UID, w.Generation = "cluster1", name, types.UID(name), generation
		return w
	}
	begins := func(c *spoke.Cluster, w *workv1.ManifestWork, wait time.Duration, ends int) (served func()) {
		t.Helper()
		served, got, n := c.Begin(t.Context(), w)
		if got > wait || got < wait-time.Second || got <= 0 && wait > 0 || n != ends {
			t.Fatalf("%s waits for %s after %d ends, want %s after %d", w.Name, got, n, wait, ends)
		}
		if wait > 0 {
			return nil
		}
		if err := c.RecordAttempt(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		return served
	}
	bad, innocent, later := work("bad", 1), work("innocent", 1), work("later", 1)
	c := start()
	begins(c, bad, 0, 0)
	begins(c, innocent, 0, 0)
	begins(c, later, 0, 0)()
	begins(c, later, 0, 0)

	c = start() // after the first end
	begins(c, bad, 2*time.Second, 1)
	begins(c, innocent, 2*time.Second, 1)
	begins(c, later, 0, 0)()
	c.Elapse(2 * time.Second)
	begins(c, bad, 0, 0)
	begins(c, innocent, time.Second, 1) // one at a time

	c = start() // after the second end
	begins(c, bad, 4*time.Second, 2)
	begins(c, innocent, 2*time.Second, 1)
	begins(c, later, 0, 0)()
	c.Elapse(2 * time.Second)
	begins(c, innocent, 0, 0)()
	c.Elapse(2 * time.Second)
	begins(c, bad, 0, 0)

	c = start() // after the third end
	begins(c, innocent, 0, 0)
	begins(c, bad, 8*time.Second, 3)
	begins(c, work("bad", 2), 0, 0)() // a new generation may be the fix

	c = start()
	begins(c, work("bad", 2), 0, 0)
}
