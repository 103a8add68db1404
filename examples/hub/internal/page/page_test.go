// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/examples/hub/internal/page"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// version matches the version of a page. It differs between processes, so golden files do not
// contain it.
var version = regexp.MustCompile(`data-version="[A-Z2-7]{10}\.`)

func TestGolden(t *testing.T) {
	for name, query := range map[string]string{"page": "", "filtered": "?q=WEB+image"} {
		t.Run(name, func(t *testing.T) {
			answer := get(newPage(t, &hub{state: small()}, page.Options{Title: "Test hub"}), "/"+query)
			if answer.Code != http.StatusOK || answer.Header().Get("Content-Type") != "text/html; charset=utf-8" {
				t.Fatalf("%d %q", answer.Code, answer.Header().Get("Content-Type"))
			}
			got := version.ReplaceAllString(answer.Body.String(), `data-version="EPOCH.`)
			file := "testdata/" + name + ".golden.html"
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("run with -update if this is right (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFilter checks that the server hides rows without all words of the filter, and shows the
// number of matches.
func TestFilter(t *testing.T) {
	p := newPage(t, &hub{state: small()}, page.Options{})
	for _, test := range []struct {
		name, query, matches string
		hidden               int
	}{
		{"everything", "", "7 of 7 rows", 0},
		{"blanks ask for nothing", "++", "7 of 7 rows", 0},
		{"all words are needed", "cluster2+failed", "1 of 7 rows", 6},
		{"case does not count", "UNHEALTHY", "1 of 7 rows", 6},
		{"names of objects count", "deployment+shop%2Fweb", "1 of 7 rows", 6},
		{"markup does not", "rowheader", "0 of 7 rows", 7},
		{"what looks like markup is text", "%3Ctr", "0 of 7 rows", 7},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := get(p, "/?q="+test.query).Body.String()
			if !strings.Contains(body, ">"+test.matches+"<") {
				t.Errorf("the page does not say %q", test.matches)
			}
			if got := strings.Count(body, "<tr hidden"); got != test.hidden {
				t.Errorf("%d rows are hidden, want %d", got, test.hidden)
			}
		})
	}
	if answer := get(p, "/?q="+strings.Repeat("x", 257)); answer.Code != http.StatusBadRequest ||
		!strings.Contains(answer.Body.String(), "256") {
		t.Errorf("a filter of 257 bytes: %d %s", answer.Code, answer.Body)
	}
}

// hostile returns a state with one text in all text fields.
func hostile(text string) page.State {
	status := page.Status{Tone: page.Tone(text), Word: text, Reason: text}
	return page.State{
		Input:    page.Input{Origin: text, Error: text, Notice: text},
		Clusters: []page.Cluster{{Name: text, Labels: map[string]string{text: text}, Status: status}},
		Applications: []page.Application{{
			Name: text, Revision: text, Status: status,
			Placements: []page.Placement{{Cluster: text, Revision: text, Status: status}},
		}},
		Works: []page.Work{{
			Cluster: text, Name: text, Application: text,
			Conditions: []metav1.Condition{{Type: text, Status: metav1.ConditionStatus(text), Reason: text, Message: text}},
			Objects:    []page.Object{{Kind: text, Namespace: text, Name: text, Health: status}},
		}},
	}
}

// TestHostileText checks that hostile names do not change the tags and attributes of the page.
func TestHostileText(t *testing.T) {
	tags := func(text string) []string {
		p := newPage(t, &hub{state: hostile(text)}, page.Options{Title: text})
		body := version.ReplaceAllString(get(p, "/").Body.String(), "")
		found := regexp.MustCompile(`<[^>]*>`).FindAllString(body, -1)
		for i, tag := range found {
			found[i] = regexp.MustCompile(` id="\w+/[^"]*"`).ReplaceAllString(tag, " id=")
		}
		return found
	}
	want := tags("harmless")
	for _, text := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</table></body>`, `<!--`,
		`]]>`,
		`javascript:alert(1)`, `{{.Title}}`, "a\nb\rc\x00d", "\u2028\u202e", "\xff\xfe", `..//../%2f`, `&lt;b&gt;`,
	} {
		t.Run(fmt.Sprintf("%q", text), func(t *testing.T) {
			if diff := cmp.Diff(want, tags(text)); diff != "" {
				t.Errorf("the tags are others (-harmless +hostile):\n%s", diff)
			}
		})
	}
}

// TestBounds checks that very long names and lists do not make the page very long.
func TestBounds(t *testing.T) {
	state := hostile(strings.Repeat("é", 100_000))
	for range 5000 {
		state.Works[0].Objects = append(state.Works[0].Objects, page.Object{Kind: "ConfigMap", Name: "x"})
		state.Works[0].Conditions = append(state.Works[0].Conditions, metav1.Condition{Type: "X"})
	}
	body := get(newPage(t, &hub{state: state}, page.Options{}), "/").Body.String()
	if len(body) > 100_000 {
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
	}
	again := get(p, "/page.js", "If-None-Match", get(p, "/page.js").Header().Get("ETag"))
	if again.Code != http.StatusNotModified {
		t.Errorf("a file that a browser has already: %d", again.Code)
	}
	for _, test := range []struct {
		method, path string
		code         int
	}{
		{http.MethodPost, "/", http.StatusMethodNotAllowed}, {http.MethodDelete, "/events", http.StatusMethodNotAllowed},
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
	p := newPage(t, &hub{state: small()}, page.Options{})
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

// TestNames checks that two elements never have the same ID.
func TestNames(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	h := &hub{state: page.State{
		Works:    []page.Work{{Cluster: "a/b", Name: "c"}, {Cluster: "a", Name: "b/c"}, {Cluster: "a%2Fb", Name: "c"}},
		Clusters: []page.Cluster{{Name: long + "1"}, {Name: long + "2"}},
	}}
	body := get(newPage(t, h, page.Options{}), "/").Body.String()
	ids := regexp.MustCompile(`<tr role="row" id="([^"]*)"`).FindAllStringSubmatch(body, -1)
	seen := []string{}
	for _, id := range ids {
		seen = append(seen, id[1])
	}
	want := []string{"works/a%252Fb/c", "works/a%2Fb/c", "works/a/b%2Fc"}
	if len(seen) != 5 || !slices.Equal(seen[2:], want) {
		t.Errorf("IDs %q, want two clusters and %q", seen, want)
	}
}

func TestNew(t *testing.T) {
	for name, test := range map[string]struct {
		hub  page.Hub
		opts page.Options
		want string
	}{
		"no hub":            {nil, page.Options{}, "Hub"},
		"negative interval": {&hub{}, page.Options{Interval: -1}, "Interval"},
		"negative readers":  {&hub{}, page.Options{MaxReaders: -1}, "MaxReaders"},
		"negative timeout":  {&hub{}, page.Options{WriteTimeout: -1}, "WriteTimeout"},
	} {
		if _, err := page.New(test.hub, test.opts); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
