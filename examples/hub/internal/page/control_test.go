// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/examples/hub/internal/page"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/internal/testing/chromium"
)

// post sends a form to a path of a page.
func post(p http.Handler, path string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	p.ServeHTTP(answer, request)
	return answer
}

var forms = regexp.MustCompile(`<form method="post" action="\?do=(\w+)">`)

// TestActions checks which actions the page of an application has in each state.
func TestActions(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*status.Application)
		path string
		want string
	}{
		"waits for an approval": {func(*status.Application) {}, "", "approve pause abort release"},
		"paused": {func(a *status.Application) { a.Rollout.Paused, a.Rollout.Needs = true, nil }, "",
			"resume abort release"},
		"failed":   {func(a *status.Application) { a.Rollout.Status, a.Held = "Error", 0 }, "", "resume"},
		"done":     {func(a *status.Application) { a.Rollout.Status, a.Held = "Done", 0 }, "", ""},
		"rollback": {func(a *status.Application) { a.Rollout, a.Held = nil, 0 }, "?from=2&to=1", "rollback"},
		"other difference": {func(a *status.Application) { a.Rollout, a.Held = nil, 0 },
			"?from=1&to=2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := held()
			a := h.applications["shop"]
			rollout := *a.Rollout
			a.Rollout = &rollout
			test.edit(&a)
			h.applications["shop"] = a
			path, verbs := "/applications/shop"+test.path, []string{}
			body := get(newPage(t, h, page.Options{MayEdit: everyone}), path).Body.String()
			for _, m := range forms.FindAllStringSubmatch(body, -1) {
				verbs = append(verbs, m[1])
			}
			if got := strings.Join(verbs, " "); got != test.want {
				t.Errorf("the actions are %q, want %q", got, test.want)
			}
			if links := strings.Contains(body, "roll back to 1 …"); !links {
				t.Error("no link leads to the differences of a rollback")
			}
			reader := get(newPage(t, h, page.Options{}), path).Body.String()
			if forms.MatchString(reader) || strings.Contains(reader, "roll back") {
				t.Error("a reader gets actions")
			}
		})
	}
}

// TestControl checks what the page answers to forms.
func TestControl(t *testing.T) {
	const path = "/applications/shop?do="
	canary := url.Values{"seen": {"2"}, "group": {"canary"}, "gate": {"After"}}
	seen := func(more ...string) url.Values { return url.Values{"seen": {"2"}, "revision": more} }
	for name, test := range map[string]struct {
		path    string
		form    url.Values
		headers []string
		failure error
		note    string
		code    int
		want    string // the location, or a part of the body
		calls   []string
	}{
		"approve": {path + "approve", canary, nil, nil, "", 303, "?done=approve", []string{"shop approve {canary After} 0"}},
		"rollback": {path + "rollback", seen("1"), nil, nil, "", 303, "?done=rollback",
			[]string{"shop rollback { } 1"}},
		"same": {path + "rollback", seen("1"), nil, nil, "nothing changes", 303, "?done=same",
			[]string{"shop rollback { } 1"}},
		"same origin": {path + "pause", seen(), []string{"Sec-Fetch-Site", "same-origin"}, nil, "", 303, "?done=pause",
			[]string{"shop pause { } 0"}},
		"other origin": {path + "pause", seen(), []string{"Sec-Fetch-Site", "cross-site"}, nil, "", 403, "cross-origin", nil},
		"other origin of an old browser": {path + "pause", seen(), []string{"Origin", "http://other.example.com"}, nil, "",
			403, "cross-origin", nil},
		"failure": {path + "abort", seen(), nil, errors.New("the event has ended"), "", 409,
			"<strong>Nothing has changed:</strong> the event has ended", []string{"shop abort { } 0"}},
		"an old page": {path + "approve", url.Values{"seen": {"1"}, "group": {"canary"}}, nil, nil, "", 409,
			"the application has changed", nil},
		"no application": {"/applications/none?do=pause", seen(), nil, nil, "", 404, "no such application", nil},
		"a large form": {path + "pause", url.Values{"x": {strings.Repeat("x", 8<<10)}}, nil, nil, "", 400, "8192 bytes",
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := held()
			h.failure, h.note = test.failure, test.note
			answer := post(newPage(t, h, page.Options{MayEdit: everyone}), test.path, test.form, test.headers...)
			if got := answer.Header().Get("Location") + answer.Body.String(); answer.Code != test.code ||
				!strings.Contains(got, test.want) {
				t.Errorf("%d %s, want %d %s", answer.Code, got, test.code, test.want)
			}
			if diff := cmp.Diff(test.calls, h.controls); diff != "" {
				t.Errorf("the hub got (-want +got)\n%s", diff)
			}
		})
	}
	for name, mayEdit := range map[string]func(*http.Request) bool{
		"by default": nil, "a reader": func(*http.Request) bool { return false },
	} {
		h := held()
		answer := post(newPage(t, h, page.Options{MayEdit: mayEdit}), path+"approve", canary)
		if answer.Code != http.StatusForbidden || h.controls != nil {
			t.Errorf("%s: %d %v", name, answer.Code, h.controls)
		}
	}
}

// TestControlInBrowser checks that actions work with the keyboard, with and without scripts, also
// while the page updates itself.
func TestControlInBrowser(t *testing.T) {
	browser := chromium.Start(t)
	for name, scripts := range map[string]bool{"with scripts": true, "without scripts": false} {
		t.Run(name, func(t *testing.T) {
			h := held()
			mux := http.NewServeMux() // below a path
			p := newPage(t, h, page.Options{MayEdit: everyone})
			mux.Handle("/hub/", http.StripPrefix("/hub", p))
			server := httptest.NewServer(mux)
			t.Cleanup(server.Close)
			b := &browsed{Tab: browser.Blank(t), t: t, hub: h, page: p, url: server.URL}
			if !scripts {
				b.NoScripts()
			}
			b.Resize(320, 900)
			b.Go(server.URL + "/hub/applications/shop")
			b.focus("Pause the rollout")
			b.Press("Enter")
			b.Until(`document.readyState === "complete" && location.search === "?done=pause" && ` +
				`document.body.innerText.includes("Paused. No further cluster")`)
			if scripts { // axe needs them
				b.sound()
			}
			h.edit(func(h *hub) { h.failure = errors.New("the event has ended") })
			b.focus("Abort the rollout …")
			b.Press("Enter")
			b.focus("Abort the rollout")
			b.Press("Enter")
			b.Until(`document.body?.innerText.includes("Nothing has changed: the event has ended")`)
			b.change(func(h *hub) { h.failure = nil })
			if scripts { // the message stays
				b.Until(`document.getElementById("connection").dataset.state === "live"`)
				b.Until(`document.querySelector("[role=alert]").innerText.includes("the event has ended")`)
				if found := b.Violations(); len(found) > 0 {
					t.Errorf("axe:\n%s", strings.Join(found, "\n"))
				}
			}
			b.focus("roll back to 1 …")
			b.Press("Enter")
			b.Until(`document.readyState === "complete" && document.getElementById("diff") !== null`)
			b.focus("Roll back to revision 1")
			b.Press("Enter")
			b.Until(`document.body?.innerText.includes("The rollback has started.")`)
			want := []string{"shop pause { } 0", "shop abort { } 0", "shop rollback { } 1"}
			if h.edit(func(h *hub) {}); !slices.Equal(h.controls, want) {
				t.Errorf("the hub got %q, want %q", h.controls, want)
			}
		})
	}
}

// focus presses Tab until an element with a text has the focus.
func (b *browsed) focus(text string) {
	b.t.Helper()
	for range 60 {
		b.Press("Tab")
		if value[string](b, `document.activeElement.innerText.trim()`) == text {
			return
		}
	}
	b.t.Fatalf("the key Tab does not lead to %q", text)
}
