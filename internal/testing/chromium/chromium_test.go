// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package chromium_test

import (
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/internal/testing/chromium"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTab(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/icon" {
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!DOCTYPE html><html lang="en"><link rel="icon" href="/icon"><meta name="viewport" content="width=device-width"><title>A page</title><label>Text <input id="text"></label><p id="said">nothing</p>
			<script>setTimeout(() => { document.getElementById("said").textContent = "later" }, 50)</script></html>`)
	}))
	defer server.Close()
	browser := chromium.Start(t)
	tab := browser.Open(t, server.URL)
	tab.Until(`document.getElementById("said").textContent === "later"`)
	tab.Type("text", "größe")
	var typed string
	if tab.Eval(`document.getElementById("text").value`, &typed); typed != "größe" {
		t.Errorf("typed %q", typed)
	}
	for _, scheme := range []string{"dark", "light"} {
		tab.ColorScheme(scheme)
		var matches bool
		if tab.Eval(fmt.Sprintf(`matchMedia("(prefers-color-scheme: %s)").matches`, scheme), &matches); !matches {
			t.Errorf("the scheme is not %s", scheme)
		}
	}
	if got := tab.Accessible("textbox"); len(got) != 1 || got[0] != "Text" {
		t.Errorf("for assistive technology there are the text boxes %q", got)
	}
	tab.Resize(400, 300)
	file, err := os.Open(tab.Screenshot("page"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if image, err := png.Decode(file); err != nil || image.Bounds().Dx() != 400 {
		t.Errorf("the screenshot is no image of 400 pixels: %v", err)
	}
	if problems := tab.Problems(); len(problems) > 0 {
		t.Errorf("a page without faults: %s", strings.Join(problems, "\n"))
	}

	still := browser.Blank(t)
	still.NoScripts()
	still.Go(server.URL)
	var said string
	if still.Eval(`document.getElementById("said").textContent`, &said); said != "nothing" {
		t.Errorf("a page without scripts says %q", said)
	}
}

// TestProblems checks that each kind of problem of a page is found.
func TestProblems(t *testing.T) {
	browser := chromium.Start(t)
	for name, test := range map[string]struct{ body, want string }{
		"console":   {`<script>console.error("bad luck")</script>`, "bad luck"},
		"exception": {`<script>nowhere.to()</script>`, "nowhere is not defined"},
		"missing":   {`<img alt="" src="/missing.png">`, "404"},
		"policy":    {`<p style="color: red">styled</p>`, "style-src"},
		"elsewhere": {`<img alt="" src="https://example.com/image.png">`, "img-src"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/" {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/html")
				w.Header().Set("Content-Security-Policy", "style-src 'none'; img-src 'self'")
				fmt.Fprintf(w, `<!DOCTYPE html><html lang="en"><title>A page</title><body>%s</body></html>`, test.body)
			}))
			defer server.Close()
			if problems := strings.Join(browser.Open(t, server.URL).Problems(), "\n"); !strings.Contains(problems, test.want) {
				t.Errorf("want one with %q, have\n%s", test.want, problems)
			}
		})
	}
}

// TestViolations checks that axe finds an image without a text, and nothing on a page without faults.
func TestViolations(t *testing.T) {
	browser := chromium.Start(t)
	for name, test := range map[string]struct{ body, want string }{
		"a text":  {`<main><h1>Page</h1><img alt="a dot" src="data:image/gif;base64,R0lGODlhAQABAAAAACw="></main>`, ""},
		"no text": {`<main><h1>Page</h1><img src="data:image/gif;base64,R0lGODlhAQABAAAAACw="></main>`, "image-alt"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprintf(w, `<!DOCTYPE html><html lang="en"><title>A page</title><body>%s</body></html>`, test.body)
			}))
			defer server.Close()
			found := strings.Join(browser.Open(t, server.URL).Violations(), "\n")
			if !strings.Contains(found, test.want) || (found == "") != (test.want == "") {
				t.Errorf("found %q, want %q", found, test.want)
			}
		})
	}
}
