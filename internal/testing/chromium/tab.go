// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package chromium

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Tab is one page. Expressions are JavaScript. Every method fails the test if it cannot complete.
type Tab struct {
	t       testing.TB
	wire    *wire
	session string // empty for the browser's own session
}

func (tab *Tab) call(method string, p params, result any) {
	tab.t.Helper()
	if err := tab.wire.call(tab.session, method, p, result); err != nil {
		tab.t.Fatalf("chromium: %v", err)
	}
}

// Go loads a page and waits until the page, its scripts and its styles are loaded.
func (tab *Tab) Go(url string) {
	tab.t.Helper()
	var answer struct {
		ErrorText string `json:"errorText"`
	}
	tab.call("Page.navigate", params{"url": url}, &answer)
	if answer.ErrorText != "" {
		tab.t.Fatalf("chromium: %s: %s", url, answer.ErrorText)
	}
	tab.Until(`document.readyState === "complete"`)
}

// Eval evaluates an expression, and waits if it is a promise. If result is not nil, Eval decodes
// the value into it.
func (tab *Tab) Eval(expression string, result any) {
	tab.t.Helper()
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	tab.call("Runtime.evaluate", params{"expression": expression, "awaitPromise": true, "returnByValue": true}, &answer)
	if e := answer.Exception; e != nil {
		tab.t.Fatalf("chromium: %s: %s %s", expression, e.Text, e.Exception.Description)
	}
	if result == nil {
		return
	}
	if err := json.Unmarshal(answer.Result.Value, result); err != nil {
		tab.t.Fatalf("chromium: %s is %s: %v", expression, answer.Result.Value, err)
	}
}

// Until waits until an expression is true. On failure it logs the text of the page.
func (tab *Tab) Until(expression string) {
	tab.t.Helper()
	// Polled from here and not by a timer of the page, because a page without scripts has no
	// timers.
	for end := time.Now().Add(stepLimit); ; time.Sleep(20 * time.Millisecond) {
		var holds bool
		if tab.Eval("Boolean("+expression+")", &holds); holds {
			return
		}
		if time.Now().After(end) {
			var text string
			tab.Eval(`document.body.innerText.slice(0, 4000)`, &text)
			tab.t.Fatalf("chromium: after %v still not: %s\nThe page:\n%s", stepLimit, expression, text)
		}
	}
}

// Type focuses the element with an ID and types a text, one character at a time.
func (tab *Tab) Type(id, text string) {
	tab.t.Helper()
	tab.Eval(fmt.Sprintf("document.getElementById(%q).focus()", id), nil)
	for _, character := range text {
		tab.call("Input.insertText", params{"text": string(character)}, nil)
	}
}

// Press presses and releases a key that types nothing, such as "Tab".
func (tab *Tab) Press(key string) {
	tab.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		tab.call("Input.dispatchKeyEvent", params{"type": kind, "key": key, "code": key,
			"windowsVirtualKeyCode": map[string]int{"Tab": 9, "Enter": 13, "Escape": 27}[key],
			"text":                  map[string]string{"keyDown Enter": "\r"}[kind+" "+key]}, nil)
	}
}

// Resize changes the size of the tab, in CSS pixels.
func (tab *Tab) Resize(width, height int) {
	tab.t.Helper()
	tab.call("Emulation.setDeviceMetricsOverride", params{"width": width, "height": height, "deviceScaleFactor": 1,
		"mobile": width < 600}, nil)
}

// ColorScheme sets the user's color scheme preference to "light" or "dark".
func (tab *Tab) ColorScheme(scheme string) {
	tab.t.Helper()
	feature := map[string]string{"name": "prefers-color-scheme", "value": scheme}
	tab.call("Emulation.setEmulatedMedia", params{"features": []any{feature}}, nil)
}

// NoScripts disables the JavaScript of pages. Eval still works.
func (tab *Tab) NoScripts() {
	tab.t.Helper()
	tab.call("Emulation.setScriptExecutionDisabled", params{"value": true}, nil)
}

// Accessible returns the names of all elements with a role for assistive technology, for example
// "heading", in order.
func (tab *Tab) Accessible(role string) []string {
	tab.t.Helper()
	type text struct {
		Value any `json:"value"`
	}
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name text
		} `json:"nodes"`
	}
	tab.call("Accessibility.getFullAXTree", nil, &tree)
	var names []string
	for _, node := range tree.Nodes {
		if !node.Ignored && node.Role.Value == role {
			names = append(names, fmt.Sprint(node.Name.Value))
		}
	}
	return names
}

// Screenshot writes the whole page as a PNG to the test's folder of artefacts, which `go test
// -artifacts` keeps. It returns the path of the file.
func (tab *Tab) Screenshot(name string) string {
	tab.t.Helper()
	var image struct {
		Data string `json:"data"`
	}
	tab.call("Page.captureScreenshot", params{"format": "png", "captureBeyondViewport": true}, &image)
	content, err := base64.StdEncoding.DecodeString(image.Data)
	if err != nil {
		tab.t.Fatal(err)
	}
	path := filepath.Join(tab.t.ArtifactDir(), name+".png")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		tab.t.Fatal(err)
	}
	return path
}

// Problems returns the problems that the browser reported in this tab, one in each line: errors and
// warnings on the console, exceptions, failed requests, and violations of the
// Content-Security-Policy.
func (tab *Tab) Problems() []string {
	tab.t.Helper()
	tab.Eval("1", nil) // earlier events have arrived after this call
	var found []string
	for _, m := range tab.wire.of(tab.session) {
		if line := problem(m); line != "" {
			found = append(found, line)
		}
	}
	return found
}

// problem returns an event as a line of text if it reports a problem, and otherwise "".
func problem(m message) string {
	var p struct {
		Type  string `json:"type"`
		Entry struct {
			Level string `json:"level"`
		} `json:"entry"`
		Canceled bool `json:"canceled"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return ""
	}
	switch m.Method {
	case "Runtime.exceptionThrown", "Audits.issueAdded":
	case "Runtime.consoleAPICalled":
		if p.Type != "error" && p.Type != "warning" && p.Type != "assert" {
			return ""
		}
	case "Log.entryAdded":
		if p.Entry.Level != "error" && p.Entry.Level != "warning" {
			return ""
		}
	case "Network.loadingFailed":
		if p.Canceled {
			return ""
		}
	default:
		return ""
	}
	return m.Method + " " + string(m.Params)
}
