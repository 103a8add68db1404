// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

const (
	frontGroup      = "work.open-cluster-management.io"
	frontPath       = "/apis/" + frontGroup + "/v1"
	frontAggregated = "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)

// front is an API server: a real one, or a source in this process.
type front struct {
	t      *testing.T
	name   string
	config *rest.Config
	client *http.Client
}

func newFront(t *testing.T, name string, config *rest.Config) front {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return front{t, name, config, client}
}

// fronts returns a real API server and a source, both with a namespace.
func fronts(t *testing.T, namespace string) (server, source front) {
	t.Helper()
	cluster := kube.Shared(t)
	cluster.CreateNamespaces(namespace)
	server = newFront(t, "API server", cluster.Config())
	eventually(t, "the API server publishes the CRDs", func() error {
		for _, published := range [][3]string{
			{frontPath + "/manifestworks", "", "ManifestWorkList"},
			{"/apis", "", frontGroup},
			{"/apis", frontAggregated, frontGroup},
			{frontPath, "", "appliedmanifestworks"},
			{"/openapi/v3" + frontPath + "?hash=" + server.hash(), "", "AppliedManifestWorkList"},
			{"/openapi/v2", "", frontPath + "/manifestworks"},
		} {
			response := server.do(http.MethodGet, published[0], "", published[1])
			body, err := io.ReadAll(response.body)
			if err != nil {
				return err
			}
			if response.status != http.StatusOK || !bytes.Contains(body, []byte(published[2])) {
				return fmt.Errorf("%s: status %d, no %s", published[0], response.status, published[2])
			}
		}
		return nil
	})
	return server, newFront(t, "source", sourceConfig(t, namespace))
}

// sourceConfig starts a source and the agent of a namespace, and returns the configuration of the
// source. The agent confirms works and writes nothing. Without an agent, a source adds a condition
// to each work that is 30 s old.
func sourceConfig(t *testing.T, namespace string) *rest.Config {
	t.Helper()
	bus := memory.New()
	source, err := work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	background(t, source.Start)
	agent, err := work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: namespace, Sources: []string{"hub"}})
	if err != nil {
		t.Fatal(err)
	}
	background(t, agent.Start)
	config, err := restconfig.FromSource(source)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// reply is a response with its body open until the end of the test.
type reply struct {
	status int
	header http.Header
	body   io.Reader
}

// do sends a request with headers in the form "Name: value".
func (f front) do(method, path, body string, headers ...string) reply {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, strings.TrimSuffix(f.config.Host, "/")+path,
		strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, h := range headers {
		if name, value, ok := strings.Cut(h, ": "); ok {
			r.Header.Set(name, value)
		}
	}
	response, err := f.client.Do(r)
	if err != nil {
		f.t.Fatalf("%s: %s %s: %v", f.name, method, path, err)
	}
	f.t.Cleanup(func() { _ = response.Body.Close() })
	return reply{response.StatusCode, response.Header, response.Body}
}

// answer returns a response in comparable form: the status, the type and the body.
func (f front) answer(method, path, body string, headers ...string) map[string]any {
	f.t.Helper()
	response := f.do(method, path, body, headers...)
	data, err := io.ReadAll(response.body)
	if err != nil {
		f.t.Fatalf("%s: %s %s: %v", f.name, method, path, err)
	}
	value := any(string(data))
	if strings.Contains(response.header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(data, &value); err != nil {
			f.t.Fatalf("%s: %s %s: %v\n%s", f.name, method, path, err, data)
		}
	}
	return map[string]any{
		"status": response.status, "type": response.header.Get("Content-Type"), "body": value,
		"etag": response.header.Get("Etag") != "",
	}
}

// TestFrontDiscoveryEqualsAPIServer compares the answers that clients need to find the resource.
func TestFrontDiscoveryEqualsAPIServer(t *testing.T) {
	t.Parallel()
	server, source := fronts(t, "front-discovery")
	for _, r := range []struct {
		method, path, accept string
		// adjust removes a difference from the answers, for a reason.
		adjust func(body map[string]any)
		reason string
	}{
		{path: "/version", adjust: func(b map[string]any) {
			maps.DeleteFunc(b, func(name string, _ any) bool {
				b[name] = ""
				return strings.HasPrefix(name, "emulation") || strings.HasPrefix(name, "minCompatibility")
			})
		}, reason: "the version differs, and a source emulates no other version"},
		{path: "/version/", adjust: func(b map[string]any) { clear(b) }, reason: "see /version"},
		{method: http.MethodPost, path: "/version"},
		{path: "/api", adjust: func(b map[string]any) { b["versions"], b["serverAddressByClientCIDRs"] = nil, nil },
			reason: "a source has no core resources and no address"},
		{method: http.MethodPost, path: "/api"},
		{path: "/api", accept: frontAggregated, adjust: keepGroup("items"), reason: "a source has no core resources"},
		{path: "/apis", adjust: keepGroup("groups"), reason: "a source has one group"},
		{path: "/apis/", adjust: keepGroup("groups"), reason: "a source has one group"},
		{method: http.MethodPost, path: "/apis", adjust: keepGroup("groups"), reason: "a source has one group"},
		{path: "/apis", accept: frontAggregated, adjust: keepGroup("items"),
			reason: "see above, and a source writes no statuses"},
		{path: "/apis", accept: strings.Replace(frontAggregated, "v2", "v2beta1", 1)},
		{path: "/apis", accept: "Accept: text/plain"},
		{path: "/apis/" + frontGroup},
		{path: "/apis/" + frontGroup + "/"},
		{path: "/apis/" + frontGroup, accept: "Accept: application/yaml"},
		{path: "/apis/" + frontGroup, accept: "Accept: application/vnd.kubernetes.protobuf"},
		{path: "/apis/missing"},
		{path: frontPath, adjust: keepWorks, reason: "a source serves no AppliedManifestWorks and writes no statuses"},
		{path: frontPath + "/", adjust: keepWorks, reason: "see above"},
	} {
		if r.method == "" {
			r.method = http.MethodGet
		}
		ask := func(f front) map[string]any {
			out := f.answer(r.method, r.path, "", r.accept)
			if body, ok := out["body"].(map[string]any); ok && r.adjust != nil {
				r.adjust(body)
			}
			return out
		}
		if diff := cmp.Diff(ask(server), ask(source)); diff != "" {
			t.Errorf("%s %s %s (-API server +source):\n%s", r.method, r.path, r.accept, diff)
		}
	}
}

// keepGroup removes the other groups from a list.
func keepGroup(list string) func(map[string]any) {
	return func(body map[string]any) {
		groups, _ := body[list].([]any)
		groups = slices.DeleteFunc(groups, func(group any) bool {
			data, _ := json.Marshal(group)
			return !bytes.Contains(data, []byte(frontGroup))
		})
		body[list] = groups
		for _, group := range groups {
			if versions, ok := group.(map[string]any)["versions"].([]any); ok {
				keepWorks(versions[0].(map[string]any))
			}
		}
	}
}

// keepWorks removes AppliedManifestWorks, and the verbs of the status.
func keepWorks(version map[string]any) {
	resources, _ := version["resources"].([]any)
	version["resources"] = slices.DeleteFunc(resources, func(resource any) bool {
		r := resource.(map[string]any)
		if subs, ok := r["subresources"].([]any); ok {
			delete(subs[0].(map[string]any), "verbs")
		}
		if r["name"] == "manifestworks/status" {
			delete(r, "verbs")
		}
		return r["kind"] == "AppliedManifestWork" || r["resource"] == "appliedmanifestworks"
	})
}

// TestFrontOpenAPIEqualsAPIServer compares the documents and their headers. With -update, it writes
// the documents.
func TestFrontOpenAPIEqualsAPIServer(t *testing.T) {
	t.Parallel()
	server, source := fronts(t, "front-openapi")
	for path, file := range map[string]string{"/openapi/v2": "v2", "/openapi/v3" + frontPath: "v3"} {
		want := onlyWorks(t, server.answer(http.MethodGet, path, "")["body"])
		if *update {
			data, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			file = "../../cloudevents/work/internal/restapi/openapi/" + file + ".json"
			if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(want, source.answer(http.MethodGet, path, "")["body"]); diff != "" {
			t.Errorf("%s: run with -update (-API server +source):\n%s", path, diff)
		}
	}
	if diff := cmp.Diff(openAPIRequests(server), openAPIRequests(source)); diff != "" {
		t.Errorf("-API server +source:\n%s", diff)
	}
}

// onlyWorks removes the paths of other resources from an OpenAPI document, and the parts that the
// remaining paths do not refer to.
func onlyWorks(t *testing.T, body any) any {
	t.Helper()
	document := body.(map[string]any)
	paths := document["paths"].(map[string]any)
	maps.DeleteFunc(paths, func(path string, _ any) bool {
		return !strings.HasPrefix(path, frontPath) || !strings.Contains(path, "/manifestworks")
	})
	used := map[string]bool{}
	var visit func(value any)
	visit = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			for name, member := range v {
				ref, ok := member.(string)
				if name != "$ref" || !ok {
					visit(member)
				} else if !used[ref] {
					used[ref] = true
					var target any = document
					for _, step := range strings.Split(ref, "/")[1:] {
						target = target.(map[string]any)[step]
					}
					visit(target)
				}
			}
		case []any:
			for _, item := range v {
				visit(item)
			}
		}
	}
	visit(paths)
	keep := func(parent map[string]any, names ...string) {
		for _, name := range names {
			parts, _ := parent[name].(map[string]any)
			maps.DeleteFunc(parts, func(part string, _ any) bool {
				return !slices.ContainsFunc(slices.Collect(maps.Keys(used)), func(ref string) bool {
					return strings.HasSuffix(ref, "/"+name+"/"+part)
				})
			})
		}
	}
	keep(document, "definitions", "parameters")
	if components, ok := document["components"].(map[string]any); ok {
		keep(components, "schemas")
	}
	return document
}

// openAPIRequests returns the statuses and headers of requests for documents. Caches of clients
// depend on them.
func openAPIRequests(f front) (lines []string) {
	f.t.Helper()
	ask := func(path string, headers ...string) {
		response := f.do(http.MethodGet, path, "", headers...)
		line := fmt.Sprintln(strings.ReplaceAll(path, "hash="+f.hash(), "hash=HASH"), headers, response.status)
		for _, name := range []string{"Content-Type", "Vary", "Accept-Ranges", "Cache-Control", "Location"} {
			for _, value := range response.header.Values(name) {
				if value != "Accept-Encoding" { // from a filter before the handler
					line += "  " + name + ": " + strings.ReplaceAll(value, f.hash(), "HASH") + "\n"
				}
			}
		}
		lines = append(lines, line)
	}
	for _, version := range []string{"v2", "v3"} {
		path := "/openapi/" + version
		if version == "v3" {
			path += frontPath
		}
		ask(path)
		for _, accept := range []string{
			"application/json", "*/*", "application/*", "text/plain", "text/plain, application/json;q=0.5",
			"application/com.github.proto-openapi.spec." + version + ".v1.0+protobuf",
			"application/com.github.proto-openapi.spec." + version + "@v1.0+protobuf",
		} {
			ask(path, "Accept: "+accept)
		}
	}
	path := "/openapi/v3" + frontPath
	ask(path + "?hash=" + f.hash())
	ask(path+"?hash="+f.hash(), "Accept: application/com.github.proto-openapi.spec.v3.v1.0+protobuf")
	ask(path + "?hash=other")
	ask("/openapi/v3/apis/missing")
	ask("/openapi/v3/")
	ask("/openapi/v2/")
	response := f.do(http.MethodGet, path, "", `If-None-Match: "`+f.hash()+`"`)
	return append(lines, http.StatusText(response.status))
}

// hash returns the hash in the location of the OpenAPI document.
func (f front) hash() string {
	f.t.Helper()
	body := map[string]map[string]map[string]string{}
	if err := json.NewDecoder(f.do(http.MethodGet, "/openapi/v3", "").body).Decode(&body); err != nil {
		f.t.Fatal(err)
	}
	location, err := url.Parse(body["paths"][strings.TrimPrefix(frontPath, "/")]["serverRelativeURL"])
	if err != nil {
		f.t.Fatal(err)
	}
	return location.Query().Get("hash")
}
