// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/client"
)

// hub runs a command line, with words separated by one space.
func hub(ctx context.Context, line string) (status int, stdout, stderr string) {
	var out, problem bytes.Buffer
	status = client.Run(ctx, strings.Split(line, " "), &out, &problem)
	return status, out.String(), problem.String()
}

// serve starts an API with one answer, which is a status and a body.
func serve(t *testing.T, handler http.HandlerFunc) (url string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func answers(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func TestErrorsNameURLAndRemedy(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("token", []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		reason string
		code   int
		body   string
		more   string
		want   string
	}{
		{"no token", 401, `{"error": "who are you?"}`, "",
			"--api URL: who are you?: set --token-file to a file with a token of this hub"},
		{"a token without the right", 403, `{"error": "the role editor is needed"}`, " --token-file token",
			"--api URL: the role editor is needed: --token-file token has no token with this right"},
		{"a missing application", 404, `{"error": "there is no application \"shop\""}`, "", `there is no application "shop"`},
		{"escapes of a terminal", 409, `{"error": "a\u001b[2Jb"}`, "", "a\ufffd[2Jb"},
		{"another server", 404, "<html>", "", "--api URL: 404 Not Found: is this a hub?"},
		{"another answer", 200, "<html>", "", "--api URL: the answer is not the one of a hub"},
		{"a redirection", 302, "", "", "--api URL: 302 Found: is this a hub?"},
	} {
		url := serve(t, answers(tt.code, tt.body))
		status, _, problem := hub(t.Context(), "status shop --api "+url+tt.more)
		want := "hub status: " + strings.ReplaceAll(tt.want, "URL", url)
		if status != 1 || !strings.HasPrefix(problem, want) {
			t.Errorf("%s: %d: %s; want %s", tt.reason, status, problem, want)
		}
	}
}

// TestWatchPauses checks that answers without an ETag, as behind some proxies, do not make a watch
// call again at once.
func TestWatchPauses(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var calls atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		_, _ = io.WriteString(w, "{}")
	})
	if status, _, problem := hub(ctx, "get applications --watch --api "+url); status != 0 {
		t.Errorf("%d: %s", status, problem)
	}
	if n := calls.Load(); n > 5 {
		t.Errorf("%d calls in a second, want at most 5", n)
	}
}

// TestEndlessFile checks that a file without an end does not use all memory.
func TestEndlessFile(t *testing.T) {
	const want = "--file: /dev/zero has more than 67108864 bytes"
	if status, _, problem := hub(t.Context(), "apply -f /dev/zero"); status != 2 || !strings.Contains(problem, want) {
		t.Errorf("%d: %s; want %s", status, problem, want)
	}
}

// TestAnswersOfAnotherServer checks that no answer ends a command with a panic, or changes the
// terminal.
func TestAnswersOfAnotherServer(t *testing.T) {
	t.Chdir(t.TempDir())
	const document = "apiVersion: hub.spokewire.io/v1alpha1\nkind: Cluster\nmetadata: {name: c1}\n"
	if err := os.WriteFile("cluster.yaml", []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := []string{
		"status", "status shop", "history", "history shop", "get applications", "get clusters", "get placements",
		"get tokens", "get works --cluster c1", "get objects --cluster c1", "apply -f cluster.yaml",
		"diff -f cluster.yaml", "diff shop", "rollback shop", "token create --cluster c1",
	}
	const escape = `"\u001b[2J\u009b1m"`
	bodies := []string{
		"null", "{}", "[]", "[null]", `{"applications":[null],"links":[null],"placements":[null]}`,
		strings.ReplaceAll(`[{"kind":X,"name":X,"action":X,"path":X,"before":X,"application":X,"by":X,"cause":X}]`,
			"X", escape),
		strings.ReplaceAll(`{"token":X,"url":X,"note":X,"revision":1,"name":X,"reason":X,
			"documents":[{"kind":X,"name":X,"action":X,"changes":[{"path":X,"after":X}]}],
			"applications":[{"name":X,"problem":X,"objects":[{"action":X,"object":X,"clusters":[X]}]}]}`, "X", escape),
	}
	for _, body := range bodies {
		url := serve(t, answers(200, body))
		for _, line := range lines {
			_, out, problem := hub(t.Context(), line+" --api "+url)
			if strings.ContainsAny(out+problem, "\x1b\u009b") {
				t.Errorf("%s: %s: %q", body, line, out+problem)
			}
		}
	}
}

func TestTokenOfThisMachine(t *testing.T) {
	t.Chdir(t.TempDir())
	var got string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		_, _ = io.WriteString(w, "{}")
	})
	call := func(line, want string) {
		t.Helper()
		if status, _, problem := hub(t.Context(), line+" --api "+url); status != 0 || got != want {
			t.Errorf("%s: %d: %s; sent %q, want %q", line, status, problem, got, want)
		}
	}
	call("status", "")
	if err := os.Mkdir("hub-data", 0o700); err != nil {
		t.Fatal(err)
	}
	for file, token := range map[string]string{"hub-data/admin.token": "own\n", "other": "other"} {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	call("status", "Bearer own")
	call("pause shop --token-file other", "Bearer other")
}

// TestWatch checks that a watch prints only rows that have changed, and sends the tag of the answer
// before.
func TestWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls := 0
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		const a, b = `{"name":"a","sync":"Synced","health":"Healthy","revision":"1","on":{"Healthy":1}}`,
			`{"name":"b","sync":"OutOfSync","health":"Degraded","on":{"Degraded":2},"reason":"broken"}`
		calls++
		want := map[int]string{1: "", 2: `"1"`, 3: `"2"`, 4: `"2"`}[calls]
		if tag := r.Header.Get("If-None-Match"); tag != want || r.URL.RawQuery != "watch=50s" {
			t.Errorf("call %d: %s %s", calls, r.URL, tag)
		}
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, calls))
		switch calls {
		case 1:
			fmt.Fprintf(w, `{"applications":[%s]}`, a)
		case 2:
			fmt.Fprintf(w, `{"applications":[%s,%s]}`, a, b)
		case 3:
			w.WriteHeader(http.StatusNotModified)
		default:
			cancel()
		}
	})
	status, out, problem := hub(ctx, "get applications --watch --api "+url)
	const want = "NAME   SYNC     HEALTH    CLUSTERS   REVISION   AGE         REASON\n" +
		"a      Synced   Healthy   1/1        1          <unknown>\n" +
		"NAME   SYNC        HEALTH     CLUSTERS   REVISION   AGE         REASON\n" +
		"b      OutOfSync   Degraded   0/2        <none>     <unknown>   broken\n"
	if status != 0 || out != want {
		t.Errorf("%d: %s%s", status, out, problem)
	}
}
