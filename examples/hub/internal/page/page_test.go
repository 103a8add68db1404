// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/examples/hub/internal/page"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
)

// TestPages checks the content of each page, and that all links of a page lead to a page.
func TestPages(t *testing.T) {
	h := shop(degraded("Deployment shop/web: 0 of 2 replicas available"))
	h.state.Links[0] = status.Link{Name: "broker", Address: "mqtts://broker.example.com", Reason: "connection refused"}
	h.state.Documents.Refused = "shop.yaml: spec.parts: must not be empty"
	mux := http.NewServeMux() // below a path
	mux.Handle("/hub/", http.StripPrefix("/hub", newPage(t, h, page.Options{})))
	link := regexp.MustCompile(`href="([^"#]+)`)
	for path, wants := range map[string][]string{
		"/": {"The broker is down", "connection refused", "New documents were refused", "must not be empty",
			"<h3>Broken</h3>", "1 of 3 clusters is Degraded: cluster3: Deployment shop/web: 0 of 2 replicas available",
			"All clusters are healthy, as last reported."},
		"/history": {"Placement everywhere has changed", "2026-03-01 11:00:00Z",
			`?from=1&amp;to=2#diff`},
		"/applications":                      {`aria-label="Applications"`, "1 of 1 applications", "1 Degraded · 2 Healthy"},
		"/applications?health=Healthy":       {"0 of 0 applications"},
		"/clusters":                          {"3 of 3 clusters", "last heard", "env=prod"},
		"/clusters?q=CLUSTER2+eu":            {"1 of 1 clusters", "cluster2"},
		"/applications/shop":                 {"3 of 3 clusters", "Application shop has changed"},
		"/applications/shop?from=1&to=2":     {"From revision 1 to 2", "web:1.0", "web:1.1", "(redacted)"},
		"/applications/shop/cluster3":        {"shop on cluster3", "Work web-4f1a", "Deployment shop/web", "Applied=True"},
		"/clusters/cluster3":                 {"1 of 1 applications", "region=eu"},
		"/clusters/cluster3?q=no+such+thing": {"0 of 0 applications"},
	} {
		answer := get(mux, "/hub"+path)
		body := answer.Body.String()
		for _, want := range wants {
			if answer.Code != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s: %d, without %q:\n%s", path, answer.Code, want, body)
			}
		}
		base := httptest.NewRequest(http.MethodGet, "/hub"+path, nil).URL
		for _, m := range link.FindAllStringSubmatch(body, -1) {
			to, err := base.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
			if err != nil {
				t.Fatal(err)
			}
			if code := get(mux, to.String()).Code; code != http.StatusOK {
				t.Errorf("%s has a link to %s: %d", path, to, code)
			}
		}
	}
	for _, path := range []string{"/applications/stop", "/clusters/c9", "/applications/shop/c9",
		"/applications/shop?from=7&to=9"} {
		if answer := get(mux, "/hub"+path); answer.Code != http.StatusNotFound ||
			!strings.Contains(answer.Body.String(), "The broker is down") {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
	}
	if answer := get(mux, "/hub/?q="+strings.Repeat("x", 257)); answer.Code != http.StatusBadRequest ||
		!strings.Contains(answer.Body.String(), "256") {
		t.Errorf("a filter of 257 bytes: %d %s", answer.Code, answer.Body)
	}
}

// TestLists checks that lists have pages, and begin with the worst element.
func TestLists(t *testing.T) {
	p := newPage(t, large(120, 30), page.Options{})
	names := func(path string) (out []string) {
		t.Helper()
		for _, m := range regexp.MustCompile(`<tr role="row" id="[ac]-([^"]*)"`).FindAllStringSubmatch(
			get(p, path).Body.String(), -1) {
			out = append(out, m[1])
		}
		return out
	}
	first, third := names("/clusters"), names("/clusters?page=3")
	if len(first) != 50 || first[0] != "cluster0003" || first[1] != "cluster0000" || len(third) != 20 ||
		third[19] != "cluster0119" {
		t.Errorf("%d clusters from %q, and %q", len(first), first[:2], third)
	}
	for path, want := range map[string]int{"/clusters?page=99": 20, "/clusters?page=x": 50, "/clusters?health=Unknown": 1,
		"/clusters?q=region1": 17, "/clusters?q=silent": 1, "/": 4} {
		if got := names(path); len(got) != want {
			t.Errorf("%s has %d rows, want %d: %q", path, len(got), want, got)
		}
	}
}

// hostile returns a hub with one text in all text fields.
func hostile(text string) *hub {
	s := status.Status{Sync: status.Sync(text), Health: status.Health(text), Reason: text}
	placement := status.Placement{Application: text, Cluster: text, Revision: text, Status: s}
	work := status.Work{
		Cluster: text, Name: text, Application: text,
		Conditions: []metav1.Condition{{Type: text, Status: metav1.ConditionStatus(text), Reason: text, Message: text}},
		Objects:    []status.Object{{Kind: text, Namespace: text, Name: text, Status: s}},
	}
	revisions := []status.Revision{{Application: text, Cause: text, By: text, Before: 1}}
	counts := status.Counts{s.Health: 1}
	a := status.Application{Name: text, Revision: text, Status: s, On: counts, Placements: []status.Placement{placement},
		Revisions: revisions, Rollout: &status.Rollout{Status: text, Waiting: text,
			Groups: []status.RolloutGroup{{Name: text}}}}
	c := status.Cluster{Name: text, Labels: map[string]string{text: text}, Status: s, Agent: status.Connection(text),
		On: counts, Placements: []status.Placement{placement}, Works: []status.Work{work}}
	return &hub{
		state: status.Hub{Links: []status.Link{{Name: text, Address: text, Reason: text}},
			Documents:    status.Documents{Origin: text, Refused: text, Notice: text},
			Applications: []status.Application{a}, Clusters: []status.Cluster{c}},
		applications: map[string]status.Application{"x": a}, clusters: map[string]status.Cluster{"x": c},
		changes: []status.Change{{Path: text, Before: text, After: text}}, revisions: revisions,
	}
}

// TestHostileText checks that hostile names do not change the tags and attributes of a page.
func TestHostileText(t *testing.T) {
	varies := regexp.MustCompile(` (id|href|value|class|aria-label|datetime)="[^"]*"`)
	for _, path := range []string{"/", "/applications", "/clusters", "/history", "/applications/x?from=1&to=2",
		"/clusters/x"} {
		tags := func(text string) []string {
			body := get(newPage(t, hostile(text), page.Options{}), path).Body.String()
			found := regexp.MustCompile(`<[^>]*>`).FindAllString(body, -1)
			for i, tag := range found {
				found[i] = varies.ReplaceAllString(tag, " $1=")
			}
			return found
		}
		want := tags("harmless")
		for _, text := range []string{
			`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</table></body>`,
			`<!--`, `]]>`, `javascript:alert(1)`, `{{.Title}}`, "a\nb\rc\x00d", "\u2028\u202e", "\xff\xfe", `..//../%2f`,
			`&lt;b&gt;`,
		} {
			if diff := cmp.Diff(want, tags(text)); diff != "" {
				t.Errorf("%s, %q: the tags are others (-harmless +hostile):\n%s", path, text, diff)
			}
		}
	}
}

// TestBounds checks that very long names and lists do not make a page very long.
func TestBounds(t *testing.T) {
	h := hostile(strings.Repeat("é", 100_000))
	c := h.clusters["x"]
	c.Placements = nil
	for range 5000 {
		c.Works[0].Objects = append(c.Works[0].Objects, status.Object{Kind: "ConfigMap", Name: "x"})
		c.Works[0].Conditions = append(c.Works[0].Conditions, metav1.Condition{Type: "X"})
	}
	h.clusters["x"] = c
	body := get(newPage(t, h, page.Options{}), "/clusters/x").Body.String()
	if len(body) > 200_000 {
		t.Errorf("the page has %d bytes", len(body))
	}
	if !strings.Contains(body, strings.Repeat("é", page.MaxText/2)+"…") {
		t.Error("a long name is not cut where a character ends")
	}
	if strings.Count(body, "and 4901 more") != 2 {
		t.Error("the page does not say that there are more conditions and objects")
	}
}

func TestHeaders(t *testing.T) {
	p := newPage(t, &hub{}, page.Options{})
	for path, contentType := range map[string]string{
		"/": "text/html; charset=utf-8", "/page.css": "text/css; charset=utf-8", "/page.js": "text/javascript; charset=utf-8",
		"/icon.svg": "image/svg+xml",
	} {
		answer := get(p, path)
		h := answer.Header()
		if answer.Code != http.StatusOK || h.Get("Content-Type") != contentType ||
			h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", path, answer.Code, h)
		}
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") ||
			strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", path, csp)
		}
		if strings.Contains(answer.Body.String(), "://") && path != "/icon.svg" {
			t.Errorf("%s refers to another server", path)
		}
		if again := get(p, path, "If-None-Match", h.Get("ETag")); again.Code != http.StatusNotModified {
			t.Errorf("%s that a browser has already: %d", path, again.Code)
		}
	}
	for _, test := range []struct {
		method, path string
		code         int
	}{
		{http.MethodPost, "/", http.StatusMethodNotAllowed}, {http.MethodDelete, "/clusters", http.StatusMethodNotAllowed},
		{http.MethodGet, "/page.html", http.StatusNotFound}, {http.MethodGet, "/../doc.go", http.StatusTemporaryRedirect},
	} {
		answer := httptest.NewRecorder()
		p.ServeHTTP(answer, httptest.NewRequest(test.method, test.path, nil))
		if answer.Code != test.code {
			t.Errorf("%s %s: %d, want %d", test.method, test.path, answer.Code, test.code)
		}
	}
}

func TestCompressed(t *testing.T) {
	p := newPage(t, shop(healthy()), page.Options{})
	plain := get(p, "/")
	answer := get(p, "/", "Accept-Encoding", "br, gzip")
	if answer.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("%v", answer.Header())
	}
	reader, err := gzip.NewReader(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(reader)
	if err != nil || string(got) != plain.Body.String() {
		t.Errorf("the compressed page is another (%v)", err)
	}
}

// slow is a hub that needs a second to return its state.
type slow struct{ *hub }

func (s slow) State(ctx context.Context) status.Hub {
	time.Sleep(time.Second)
	return s.hub.State(ctx)
}

// TestReads checks that the state is read once for many requests: after a change, or when it is 5 s
// old, and less often if reading takes long.
func TestReads(t *testing.T) {
	for name, test := range map[string]struct {
		hub     func(*hub) page.Hub
		changes bool
		after   map[time.Duration]int
	}{
		"no change": {func(h *hub) page.Hub { return h }, false,
			map[time.Duration]int{0: 1, 4 * time.Second: 1, 6 * time.Second: 2}},
		"changes": {func(h *hub) page.Hub { return h }, true,
			map[time.Duration]int{0: 1, 200 * time.Millisecond: 1, 300 * time.Millisecond: 2}},
		"slow": {func(h *hub) page.Hub { return slow{h} }, true,
			map[time.Duration]int{0: 1, 8 * time.Second: 1, 10 * time.Second: 2}},
	} {
		for after, want := range test.after {
			t.Run(fmt.Sprint(name, " ", after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := shop(healthy())
					p := newPage(t, test.hub(h), page.Options{})
					get(p, "/")
					time.Sleep(after)
					if test.changes {
						p.Changed()
					}
					for range 3 {
						get(p, "/")
					}
					if h.reads != want {
						t.Errorf("%d reads, want %d", h.reads, want)
					}
				})
			})
		}
	}
}

func TestNew(t *testing.T) {
	if _, err := page.New(nil, page.Options{}); err == nil || !strings.Contains(err.Error(), "Hub") {
		t.Error(err)
	}
	if _, err := page.New(&hub{}, page.Options{Interval: -1}); err == nil || !strings.Contains(err.Error(), "Interval") {
		t.Error(err)
	}
}
