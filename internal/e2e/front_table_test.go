// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// chance finds values that differ between two runs on one server. It also finds Go types, and the type
// protobuf, which sources do not serve.
var chance = regexp.MustCompile(`\b(?:\d+m)?\d+s\b|\b\d+m\b|[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:]+Z|` +
	`\(\*\w+\.\w+\)|(resourceVersion\W+)\d+|, application/vnd.kubernetes.protobuf`)

// withoutChance removes the values that chance finds, also in the texts of an object.
func withoutChance(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = withoutChance(member)
			if version, ok := member.(string); ok && name == "resourceVersion" && version != "" {
				v[name] = "CHANCE"
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutChance(v[i])
		}
	case string:
		return chance.ReplaceAllString(v, "$1")
	}
	return value
}

// TestFrontTablesEqualAPIServer compares tables and objects without spec and status.
func TestFrontTablesEqualAPIServer(t *testing.T) {
	t.Parallel()
	const namespace = "front-tables"
	server, source := fronts(t, namespace)
	works := frontPath + "/namespaces/" + namespace + "/manifestworks"
	both := func(method, path, body string, headers ...string) {
		t.Helper()
		if diff := cmp.Diff(withoutChance(server.answer(method, path, body, headers...)),
			withoutChance(source.answer(method, path, body, headers...))); diff != "" {
			t.Errorf("%s %s %v (-API server +source):\n%s", method, path, headers, diff)
		}
	}
	const table = "application/json;as=Table;g=meta.k8s.io;v=v1"
	const partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	forms := []string{
		table, partial, strings.Replace(partial, "Metadata", "MetadataList", 1),
		strings.Replace(table, "v=v1", "v=v1beta1", 1),
		strings.Replace(partial, "v=v1", "v=v1beta1", 1), strings.Replace(table, "v=v1", "v=v2", 1),
		table + ",application/json", strings.Replace(table, "json", "yaml", 1),
	}
	reads := func() {
		for _, form := range forms {
			both(http.MethodGet, works, "", "Accept: "+form)
			if !strings.Contains(form, "List") { // otherwise an API server returns an internal error
				both(http.MethodGet, works+"/a", "", "Accept: "+form)
			}
		}
		for _, include := range []string{"None", "Metadata", "Object", "other"} {
			both(http.MethodGet, works+"?includeObject="+include, "", "Accept: "+table)
			both(http.MethodGet, works+"/a?includeObject="+include, "", "Accept: "+table)
		}
	}
	reads() // of an empty namespace
	for _, name := range []string{"a", "b"} {
		both(http.MethodPost, works+"?fieldManager=test", workBody(namespace, name), "Content-Type: application/json",
			"Accept: "+table)
	}
	reads()
	both(http.MethodGet, works+"?labelSelector=app=a", "", "Accept: "+table)
	both(http.MethodGet, works+"/a/status", "", "Accept: "+table)
	both(http.MethodPatch, works+"/a", `{"metadata":{"labels":{"app":"c"}}}`, "Accept: "+table,
		"Content-Type: application/merge-patch+json", "User-Agent: test")
	for _, form := range []string{table, partial} {
		for _, include := range []string{"", "None", "Object"} {
			query := "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
			if diff := cmp.Diff(server.events(works+query+"&includeObject="+include, form),
				source.events(works+query+"&includeObject="+include, form)); diff != "" {
				t.Errorf("watch %s %q (-API server +source):\n%s", form, include, diff)
			}
		}
	}
}

// workBody returns a work without fields that a source or an API server sets.
func workBody(namespace, name string) string {
	return fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"ManifestWork",
		"metadata":{"name":%q,"namespace":%q,"labels":{"app":%[2]q},"annotations":{"note":"n"}},
		"spec":{"workload":{"manifests":[
			{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"config","namespace":"default"},"data":{"key":"v"}}]}}}`,
		frontGroup, name, namespace)
}

// events returns the initial events of a watch and its first bookmark.
func (f front) events(path, accept string) (out []any) {
	f.t.Helper()
	response := f.do(http.MethodGet, path, "", "Accept: "+accept)
	lines := bufio.NewScanner(response.body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event map[string]any
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			f.t.Fatalf("%s: %v: %s", f.name, err, lines.Bytes())
		}
		out = append(out, withoutChance(event))
		if event["type"] != "ADDED" {
			return append(out, response.header.Get("Content-Type"))
		}
	}
	f.t.Fatalf("%s: the watch ended after %d events: %v", f.name, len(out), lines.Err())
	return nil
}

// TestFrontKubectlEqualsAPIServer runs kubectl on both and compares its output.
func TestFrontKubectlEqualsAPIServer(t *testing.T) {
	t.Parallel()
	const namespace = "front-kubectl"
	kubectl := kube.Program(t, "kubectl")
	server, source := fronts(t, namespace)
	var printed []string
	for _, f := range []front{server, source} {
		target, err := url.Parse(f.config.Host)
		if err != nil {
			t.Fatal(err)
		}
		proxy := httputil.NewSingleHostReverseProxy(target)
		proxy.Transport, proxy.FlushInterval = f.client.Transport, -1
		local := httptest.NewServer(proxy)
		t.Cleanup(local.Close)
		home := t.TempDir()
		var out strings.Builder
		run := func(stdin string, args ...string) {
			cmd := exec.CommandContext(t.Context(), kubectl, append(args, "--server="+local.URL, "--namespace="+namespace)...)
			cmd.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG=")
			cmd.Stdin = strings.NewReader(stdin)
			text, err := cmd.CombinedOutput()
			fmt.Fprintf(&out, "$ kubectl %s\n%s%v\n", strings.Join(args, " "), text, err)
		}
		run("", "explain", "manifestworks")
		run("", "explain", "manifestworks.spec.workload", "--recursive")
		run("", "explain", "manifestworks.spec.missing")
		run("", "get", "manifestworks")
		run(workBody(namespace, "a"), "apply", "-f", "-")
		run(workBody(namespace, "a"), "apply", "-f", "-")
		run(strings.Replace(workBody(namespace, "a"), `"n"`, `"changed"`, 1), "apply", "-f", "-")
		run(strings.Replace(workBody(namespace, "a"), `"workload"`, `"unknown"`, 1), "apply", "-f", "-")
		run(workBody(namespace, "b"), "apply", "--server-side", "-f", "-")
		run(workBody(namespace, "b"), "diff", "--server-side", "-f", "-")
		run(workBody(namespace, "c"), "create", "--dry-run=server", "-f", "-")
		run("", "get", "manifestworks", "--show-labels")
		run("", "get", "manifestwork/a", "-o", "wide")
		run("", "get", "manifestworks", "-o", "jsonpath={.items[*].metadata.annotations.note}")
		aligned := regexp.MustCompile(` {2,}`) // columns are as wide as the ages in them
		printed = append(printed, aligned.ReplaceAllString(withoutChance(out.String()).(string), "  "))
	}
	if diff := cmp.Diff(strings.Split(printed[0], "\n"), strings.Split(printed[1], "\n")); diff != "" {
		t.Errorf("-API server +source:\n%s\n%s", diff, printed[0])
	}
}
