// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package hostile_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

const documentHeader = "apiVersion: hub.spokewire.io/v1alpha1\n"

// application returns a document with one template.
func application(name, template string) string {
	return documentHeader + "kind: Application\nmetadata: {name: " + name +
		"}\nspec:\n  parts:\n  - name: main\n    manifests:\n    - template: |\n        " +
		strings.ReplaceAll(template, "\n", "\n        ") + "\n"
}

// aliases returns YAML with a last value that expands to width^depth values.
func aliases(depth, width int) string {
	out := "a0: &a0 [lol]\n"
	for i := 1; i <= depth; i++ {
		out += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), width),
			","))
	}
	return out
}

// hubDocuments returns the documents of a hostile author.
func hubDocuments() map[string]string {
	indented := strings.ReplaceAll("\n"+strings.TrimSuffix(aliases(9, 10), "\n"), "\n", "\n  ")
	configMap := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: x}\ndata:\n  v: "
	return map[string]string{
		"aliases": documentHeader + "kind: Application\nmetadata: {name: evil}\nspec:" + indented +
			"\n",
		"aliases in a template": application("evil",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: x}\ndata:"+indented),
		"aliases before the kind": aliases(9, 10) + application("evil", configMap+"x"),
		"merge keys":              documentHeader + "kind: Application\nmetadata: &m {name: evil, <<: *m}\nspec: {}\n",
		"deep": documentHeader + "kind: Application\nmetadata: {name: evil}\nspec: " +
			strings.Repeat("{a: ", 9000) + strings.Repeat("}", 9000) + "\n",
		"deep JSON": strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"a long line": documentHeader + "kind: Application\nmetadata: {name: " +
			strings.Repeat("x", 900_000) + "}\n",
		"many documents":          strings.Repeat("---\n"+documentHeader, 10_000),
		"no UTF-8":                documentHeader + "kind: \xff\xfe\n",
		"a template that repeats": application("evil", configMap+`{{ repeat 1000000000 "x" | quote }}`),
		"a template that recurses": application("evil",
			configMap+`{{ define "x" }}{{ template "x" . }}{{ end }}{{ template "x" . }}`),
		"a template that counts": application("evil", configMap+`{{ range until 1000000000 }}x{{ end }}`),
		"a template that counts deeply": application("evil",
			configMap+`{{ range $i := untilStep 0 100000 1 }}{{ range $j := untilStep 0 100000 1 }}x{{ end }}{{ end }}`),
		"a template of a long list":    application("evil", configMap+`{{ list 1 2 3 | join "," | repeat 100000000 }}`),
		"a template with a width":      application("evil", configMap+`{{ printf "%1000000000d" 1 | quote }}`),
		"a template that indents":      application("evil", configMap+`{{ "x" | indent 1000000000 | quote }}`),
		"a template that matches":      application("evil", configMap+`{{ regexMatch "((a{100}){100}){100}" "aaaaaaaa" }}`),
		"a template of many documents": application("evil", strings.Repeat("---\n"+configMap+"x\n", 3000)),
		"a dependency on itself": strings.Replace(application("evil", configMap+"x"), "    manifests:",
			"    dependsOn: [{part: main}]\n    manifests:", 1),
	}
}

// caller calls the hub's API.
type caller struct{ url, store string }

func (c caller) call(ctx context.Context, method, path, body string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	if err := e2etest.Login(request, c.store); err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// TestHub: no document and no client of a hub's API ends the hub, or keeps other clients from its
// API.
func TestHub(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	store := t.TempDir()
	v := start(t, "hub", "--broker", broker.URL(), "--listen", "127.0.0.1:0", "--store", store)
	api := caller{v.after(`"Started serving" url=`), store}
	must := func(method, path, body string) {
		t.Helper()
		if code, err := api.call(t.Context(), method, path, body); err != nil || code >= http.StatusMultipleChoices {
			t.Fatalf("%s %s: %d %v", method, path, code, err)
		}
	}
	must("PUT", "/api/v1/clusters/c1", documentHeader+"kind: Cluster\nmetadata: {name: c1}\n")
	place := func(name string) string {
		return documentHeader + "kind: Placement\nmetadata: {name: " + name + "}\nspec: {applications: [" + name +
			"], clusters: {selector: {}}}\n"
	}
	n := 0
	serve := func() error {
		n++
		for _, call := range [][3]string{
			{"PUT", "/api/v1/applications/honest",
				application("honest",
					fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: x}, data: {v: %q}}",
						fmt.Sprint(n)))},
			{"GET", "/api/v1/applications/honest/status", ""}, {"GET", "/", ""},
		} {
			code, err := api.call(t.Context(), call[0], call[1], call[2])
			if err != nil || code != http.StatusOK && code != http.StatusCreated {
				return fmt.Errorf("%s %s: %d %w", call[0], call[1], code, err)
			}
		}
		time.Sleep(50 * time.Millisecond)
		return nil
	}
	if err := serve(); err != nil {
		t.Fatal(err)
	}
	must("PUT", "/api/v1/placements/honest", place("honest"))
	var attacks []attack
	for name, document := range hubDocuments() {
		attacks = append(attacks, attack{name, func(*testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_, _ = api.call(ctx, "PUT", "/api/v1/applications/evil", document)
			_, _ = api.call(ctx, "PUT", "/api/v1/placements/evil", place("evil"))
			time.Sleep(500 * time.Millisecond) // the hub renders it
			_, _ = api.call(ctx, "DELETE", "/api/v1/placements/evil", "")
			_, _ = api.call(ctx, "DELETE", "/api/v1/applications/evil", "")
		}})
	}
	address := strings.TrimPrefix(api.url, "http://")
	for name, request := range map[string]string{
		"slow headers": "PUT /api/v1/applications/evil HTTP/1.1\r\nHost: localhost\r\nX: ",
		"slow bodies":  "PUT /api/v1/applications/evil HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{",
		"bodies without end": "PUT /api/v1/applications/evil HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n" + strings.Repeat("10000\r\n"+strings.Repeat("x", 0x10000)+"\r\n", 30),
		"long waits":          "GET /api/v1/applications/honest/status?wait=10m HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"readers of the page": "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"long headers":        "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n",
		"idle connections":    "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"no HTTP":             strings.Repeat("\x00\xff", 10_000),
	} {
		attacks = append(attacks, attack{name, func(*testing.T) { occupy(address, request, 200, 3*time.Second) }})
	}
	for name, request := range map[string]string{
		"more silent connections than there may be": "",
		"headers of many lines":                     "GET / HTTP/1.1\r\nHost: localhost\r\n" + lines(4000),
		"headers of 90 lines": "PUT /api/v1/applications/evil HTTP/1.1\r\nHost: " +
			"localhost\r\nContent-Length: 1000000\r\n" + lines(90) + "\r\n{",
	} {
		attacks = append(attacks, attack{name, func(*testing.T) { occupy(address, request, 1200, time.Second) }})
	}
	attacks = append(attacks, agentEvents(t, broker)...)
	attacks = append(attacks, crowds(api)...)
	// The last attack: from here on the hub has 20 clusters.
	attacks = append(attacks, attack{"templates that count on many clusters", func(*testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for i := range 20 {
			name := fmt.Sprint("many", i)
			_, _ = api.call(ctx, "PUT", "/api/v1/clusters/"+name, documentHeader+"kind: Cluster\nmetadata: {name: "+name+"}\n")
		}
		counts := application("evil", "{{ range 90000 }}{{ end }}") +
			strings.Repeat("    - template: '{{ range 90000 }}{{ end }}'\n", 100)
		_, _ = api.call(ctx, "PUT", "/api/v1/applications/evil", counts)
		_, _ = api.call(ctx, "PUT", "/api/v1/placements/evil", place("evil"))
		time.Sleep(500 * time.Millisecond)
		_, _ = api.call(ctx, "DELETE", "/api/v1/placements/evil", "")
	}})
	v.withstand(attacks, serve)
}

// lines returns header lines that need much more memory than their size in bytes.
func lines(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "%x:\n", i)
	}
	return out.String()
}

// occupy opens connections, sends a request on each, and closes them after a while without reading.
func occupy(address, request string, count int, during time.Duration) {
	var conns []net.Conn
	for range count {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			break
		}
		conns = append(conns, conn)
		_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = io.WriteString(conn, request)
	}
	time.Sleep(during)
	for _, conn := range conns {
		_ = conn.Close()
	}
}
