// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// raw is a request that a test writes without a client. In the path, WORKS stands for the works of the
// namespace of the test, and API for the group version.
type raw struct {
	path   string // with the method
	body   string
	header string // "Name: value", more are separated by "\n"
	// differs is the reason why the answers differ; want is the answer of a source then.
	differs, want string
}

const (
	asJSON  = "Content-Type: application/json"
	asYAML  = "Content-Type: application/yaml"
	asMerge = "Content-Type: application/merge-patch+json"
	asPatch = "Content-Type: application/json-patch+json"
	asApply = "Content-Type: application/apply-patch+yaml"
	aWork   = `{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"name":"b"}}`
)

// The reasons of differences.
const (
	earlier      = "the API server of the test is of an earlier release"
	badNamespace = "the API server lists impossible namespaces, or fails with an error of etcd"
	typed        = "the API server answers 500: to it, an unstructured object may be a list"
	protobuf     = "a source has no protobuf; the API server tries to encode errors with it"
)

// malformed are requests that an API server refuses, or that few clients send.
var malformed = []raw{
	// Paths and methods.
	{path: "GET API/namespaces/NAMESPACE/others"},
	{path: "GET API/others"},
	{path: "POST API/namespaces/NAMESPACE/others", body: aWork, header: asJSON},
	{path: "GET /apis/work.open-cluster-management.io/v2/namespaces/NAMESPACE/manifestworks"},
	{path: "GET /apis/work.open-cluster-management.io/v2"},
	{path: "GET API/manifestworks/a"},
	{path: "POST API/manifestworks", body: aWork, header: asJSON},
	{path: "DELETE API/manifestworks"},
	{path: "GET WORKS/a/scale"},
	{path: "GET WORKS/a/other"},
	{path: "PUT WORKS/a/other", body: aWork, header: asJSON},
	{path: "GET WORKS/a/status/more"},
	{path: "GET WORKS/a/other/more"},
	{path: "GET WORKS//status"},
	{path: "GET WORKS/"},
	{path: "GET WORKS/a/"},
	{path: "GET API//namespaces/NAMESPACE/manifestworks"},
	{path: "GET API/namespaces//manifestworks"},
	{path: "GET API/namespaces/NAMESPACE/ManifestWorks"},
	{path: "GET API/proxy/namespaces/NAMESPACE/manifestworks/a"},
	{path: "GET API/watch"},
	{path: "GET WORKS/missing"},
	{path: "GET API/namespaces/%2e%2e/manifestworks/a",
		differs: badNamespace, want: `400 Namespace parameter invalid: "..": may not be '..'`},
	{path: "GET API/namespaces/%2e%2e/manifestworks",
		differs: badNamespace, want: `400 Namespace parameter invalid: "..": may not be '..'`},
	{path: "GET API/namespaces/a%25b/manifestworks",
		differs: badNamespace, want: `400 Namespace parameter invalid: "a%b": may not contain '%'`},
	{path: "GET WORKS/A_b"},
	{path: "GET WORKS/%2e%2e"},
	{path: "GET WORKS/a%2fb"},
	{path: "GET WORKS/a%25b"},
	{path: "HEAD WORKS/a"},
	{path: "HEAD WORKS/missing"},
	{path: "OPTIONS WORKS/a"},
	{path: "TRACE WORKS/a"},
	{path: "BREW WORKS/a"},
	{path: "POST WORKS/a", body: aWork, header: asJSON},
	{path: "PUT WORKS/%2e%2e", body: aWork, header: asJSON},
	{path: "DELETE WORKS/%2e%2e"},
	{path: "PATCH WORKS/%2e%2e", body: "{}", header: asMerge},
	{path: "PATCH WORKS/%2e%2e?fieldManager=me", body: "{}", header: asApply},
	{path: "PUT WORKS", body: aWork, header: asJSON},
	{path: "PATCH WORKS", body: "{}", header: asMerge},
	{path: "POST WORKS/a/status", body: aWork, header: asJSON},
	{path: "DELETE WORKS/a/status"},
	{path: "DELETE WORKS/missing"},
	// Bodies.
	{path: "POST WORKS", header: asJSON},
	{path: "POST WORKS", body: "{", header: asJSON},
	{path: "POST WORKS", body: "[]", header: asJSON},
	{path: "POST WORKS", body: "null", header: asJSON},
	{path: "POST WORKS", body: "7", header: asJSON},
	{path: "POST WORKS", body: `"a"`, header: asJSON},
	{path: "POST WORKS", body: "{}", header: asJSON},
	{path: "POST WORKS", body: "\xff\xfe", header: asJSON},
	{path: "POST WORKS", body: aWork + aWork, header: asJSON},
	{path: "POST WORKS", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`, header: asJSON},
	{path: "POST WORKS", body: strings.Replace(aWork, "/v1", "/v2", 1), header: asJSON},
	{path: "POST WORKS", body: strings.Replace(aWork, "ManifestWork", "Other", 1), header: asJSON},
	{path: "POST WORKS", body: strings.Replace(aWork, `"name":"b"`, `"name":7`, 1), header: asJSON},
	{path: "POST WORKS", body: strings.Replace(aWork, `"name":"b"`, ``, 1), header: asJSON},
	{path: "POST WORKS", body: strings.Replace(aWork, `"name":"b"`, `"name":"B_"`, 1), header: asJSON},
	{path: "POST WORKS", body: strings.Replace(aWork, `"name":"b"`, `"name":"b","namespace":"other"`, 1), header: asJSON},
	{path: "POST WORKS", body: strings.Replace(aWork, `{"name":"b"}`, `[]`, 1), header: asJSON},
	{path: "POST WORKS", body: strings.Replace(aWork, `}}`, `},"spec":7}`, 1), header: asJSON},
	{path: "POST WORKS", body: strings.Replace(aWork, `}}`, `},"spec":{"workload":{"manifests":[{}]}}}`, 1),
		header: asJSON},
	{path: "POST WORKS", body: strings.Replace(aWork, `}}`, `},"spec":{"workload":{"manifests":[{}]},"executor":{},
		"deleteOption":{"propagationPolicy":"a"},"manifestConfigs":[{"resourceIdentifier":{},"updateStrategy":{"type":"b"},
		"feedbackRules":[{"type":"c"}],"conditionRules":[{"type":"d","condition":"e"}]}]}}`, 1), header: asJSON},
	{path: "POST WORKS", body: strings.Replace(aWork, `"name":"b"`, `"name":"a"`, 1), header: asJSON},
	{path: "POST WORKS", body: "a: [", header: asYAML},
	{path: "POST WORKS", body: "a", header: asYAML},
	{path: "POST WORKS", body: "- a", header: asYAML},
	{path: "POST WORKS", body: "a: &a [*a]", header: asYAML},
	{path: "POST WORKS", body: "\t", header: asYAML},
	{path: "POST WORKS?dryRun=All", body: aWork},
	{path: "POST WORKS", body: aWork, header: "Content-Type: text/plain"},
	{path: "POST WORKS", body: aWork, header: "Content-Type: application/vnd.kubernetes.protobuf",
		differs: protobuf, want: "415 the body of the request was in an unknown format - " +
			"accepted media types include: application/json, application/yaml"},
	{path: "POST WORKS", body: aWork, header: "Content-Type: /"},
	{path: "POST WORKS", body: aWork, header: "Content-Type: application/merge-patch+json"},
	{path: "PUT WORKS/a", body: aWork, header: asJSON},
	{path: "PUT WORKS/a", body: strings.Replace(aWork, `"name":"b"`, `"name":"a"`, 1), header: asJSON},
	{path: "PUT WORKS/a", body: strings.Replace(aWork, `"name":"b"`, `"name":"a","resourceVersion":"x"`, 1),
		header: asJSON},
	{path: "PUT WORKS/missing", body: strings.Replace(aWork, `"name":"b"`, `"name":"missing"`, 1), header: asJSON},
	{path: "PUT WORKS/a", body: "{", header: asJSON},
	{path: "PUT WORKS/a/status", body: "{", header: asJSON},
	{path: "PUT WORKS/a/status", body: aWork, header: asJSON},
	{path: "POST WORKS", body: `{"a":"` + strings.Repeat("a", 3<<20) + `"}`, header: asJSON},
	{path: "PUT WORKS/a", body: `{"a":"` + strings.Repeat("a", 3<<20) + `"}`, header: asJSON},
	{path: "PATCH WORKS/a", body: `{"a":"` + strings.Repeat("a", 3<<20) + `"}`, header: asMerge},
	{path: "DELETE WORKS/a", body: `{"a":"` + strings.Repeat("a", 3<<20) + `"}`, header: asJSON},
	{path: "POST WORKS", body: strings.Repeat("[", 100_000), header: asJSON},
	// Patches.
	{path: "PATCH WORKS/a", body: "{}"},
	{path: "PATCH WORKS/a", body: "{}", header: asJSON},
	{path: "PATCH WORKS/a", body: "{}", header: "Content-Type: application/strategic-merge-patch+json"},
	{path: "PATCH WORKS/a", body: "{}", header: "Content-Type: application/apply-patch+cbor"},
	{path: "PATCH WORKS/a", body: "{", header: asMerge,
		differs: earlier, want: `400 invalid JSON patch`},
	{path: "PATCH WORKS/a", header: asMerge,
		differs: earlier, want: `400 invalid JSON patch`},
	{path: "PATCH WORKS/a", body: "[]", header: asMerge},
	{path: "PATCH WORKS/a", body: "null", header: asMerge},
	{path: "PATCH WORKS/a", body: "7", header: asMerge},
	{path: "PATCH WORKS/a", body: `{"metadata":7}`, header: asMerge},
	{path: "PATCH WORKS/a", body: `{"metadata":{"name":"b"}}`, header: asMerge},
	{path: "PATCH WORKS/a", body: `{"metadata":{"resourceVersion":"1"}}`, header: asMerge},
	{path: "PATCH WORKS/a", body: `{"kind":"Other"}`, header: asMerge},
	{path: "PATCH WORKS/a", body: `{"apiVersion":"v1"}`, header: asMerge},
	{path: "PATCH WORKS/a?dryRun=All", body: `{"spec":null}`, header: asMerge},
	{path: "PATCH WORKS/missing", body: "{}", header: asMerge},
	{path: "PATCH WORKS/a?force=true", body: "{}", header: asMerge},
	{path: "PATCH WORKS/a", body: "{}", header: asPatch},
	{path: "PATCH WORKS/a", body: "7", header: asPatch},
	{path: "PATCH WORKS/a", body: "[7]", header: asPatch},
	{path: "PATCH WORKS/a", body: `[{"op":"no","path":"/a"}]`, header: asPatch},
	{path: "PATCH WORKS/a", body: `[{"op":"remove","path":"/spec/none"}]`, header: asPatch},
	{path: "PATCH WORKS/a", body: `[{"op":"test","path":"/kind","value":"x"}]`, header: asPatch},
	{path: "PATCH WORKS/a", body: `[{"op":"replace","path":"","value":7}]`, header: asPatch},
	{path: "PATCH WORKS/a", body: `[{"op":"add","path":"/spec/x/-","value":7}]`, header: asPatch},
	{path: "PATCH WORKS/a", body: "[" + strings.Repeat(`{"op":"test","path":"/kind","value":"ManifestWork"},`, 10_001) +
		`{"op":"test","path":"/kind","value":"ManifestWork"}]`, header: asPatch},
	{path: "PATCH WORKS/a", body: aWork, header: asApply},
	{path: "PATCH WORKS/a?fieldManager=me", body: aWork, header: asApply},
	{path: "PATCH WORKS/a?fieldManager=me", body: "a: [", header: asApply,
		differs: earlier, want: `400 error encoding patch: yaml: line 1: did not find expected node content`},
	{path: "PATCH WORKS/a?fieldManager=me", body: "", header: asApply},
	{path: "PATCH WORKS/a?fieldManager=me", body: "7", header: asApply,
		differs: earlier, want: "400 error decoding patch: error unmarshaling JSON: while decoding JSON: " +
			"json: cannot unmarshal number into Go value of type map[string]interface {}"},
	{path: "PATCH WORKS/a?fieldManager=me", body: "a: 1", header: asApply},
	{path: "PATCH WORKS/a?fieldManager=me", body: "a: 1\na: 2", header: asApply},
	{path: "PATCH WORKS/a?fieldManager=me&force=maybe", body: aWork, header: asApply},
	{path: "PATCH WORKS/a?fieldManager=me", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`,
		header: asApply},
	{path: "PATCH WORKS/a?fieldManager=me",
		body: strings.Replace(aWork, `"name":"b"`, `"name":"a","managedFields":[{}]`, 1), header: asApply},
	{path: "PATCH WORKS/a?fieldManager=" + strings.Repeat("a", 200), body: "{}", header: asMerge},
	{path: "PATCH WORKS/a?fieldManager=%00", body: "{}", header: asMerge},
	// Options.
	{path: "POST WORKS?dryRun=Some", body: aWork, header: asJSON},
	{path: "POST WORKS?dryRun=All&dryRun=All", body: aWork, header: asJSON},
	{path: "POST WORKS?dryRun=", body: strings.Replace(aWork, `"name":"b"`, `"name":"a"`, 1), header: asJSON},
	{path: "POST WORKS?fieldValidation=No", body: aWork, header: asJSON},
	{path: "POST WORKS?fieldValidation=Strict", body: strings.Replace(aWork, `}}`, `},"a":7,"a":8}`, 1), header: asJSON},
	{path: "POST WORKS?dryRun=All&fieldValidation=Warn",
		body: strings.Replace(aWork, `}}`, `},"a":7,"a":8}`, 1), header: asJSON},
	{path: "PUT WORKS/a?fieldValidation=Strict", body: strings.Replace(aWork, `}}`, `},"a":7,"a":8}`, 1), header: asJSON},
	{path: "PATCH WORKS/a?fieldValidation=Strict", body: `{"a":7,"spec":{"b":8}}`, header: asMerge},
	{path: "POST WORKS?timeout=soon", body: aWork, header: asJSON},
	{path: "GET WORKS?timeout=soon"},
	{path: "GET WORKS?timeout=7"},
	{path: "GET WORKS/a?timeout=soon"},
	{path: "GET WORKS?limit=-1"},
	{path: "GET WORKS?limit=x"},
	{path: "GET WORKS?limit=99999999999999999999"},
	{path: "GET WORKS?continue=x"},
	{path: "GET WORKS?continue=e30"},
	{path: "GET WORKS?continue=e30&resourceVersion=1"},
	{path: "GET WORKS?resourceVersion=x"},
	{path: "GET WORKS?resourceVersion=-1"},
	{path: "GET WORKS?resourceVersion=900000000000000000099999999999"},
	{path: "GET WORKS/a?resourceVersion=x"},
	{path: "GET WORKS?resourceVersionMatch=x"},
	{path: "GET WORKS?resourceVersionMatch=Exact"},
	{path: "GET WORKS?resourceVersionMatch=Exact&resourceVersion=0"},
	{path: "GET WORKS?resourceVersionMatch=Exact&resourceVersion=1&continue=e30"},
	{path: "GET WORKS?sendInitialEvents=true"},
	{path: "GET WORKS?watch=true&sendInitialEvents=true"},
	{path: "GET WORKS?watch=true&sendInitialEvents=true&resourceVersionMatch=Exact"},
	{path: "GET WORKS?watch=true&sendInitialEvents=x"},
	{path: "GET WORKS?watch=true&timeoutSeconds=x"},
	{path: "GET WORKS?watch=true&resourceVersion=x"},
	{path: "GET WORKS?watch=maybe&limit=x"},
	{path: "GET WORKS?labelSelector=,,"},
	{path: "GET WORKS?labelSelector=a+in+b"},
	{path: "GET WORKS?labelSelector=-a"},
	{path: "GET WORKS?watch=true&labelSelector=-a"},
	{path: "GET WORKS?fieldSelector=a"},
	{path: "GET WORKS?fieldSelector=spec.a=b"},
	{path: "GET WORKS?fieldSelector=metadata.name=a,spec=b"},
	{path: "GET WORKS?fieldSelector=metadata.name=missing"},
	{path: "GET WORKS?%zz"},
	{path: "GET WORKS?a;b"},
	{path: "GET WORKS/a?watch=true&timeoutSeconds=1&fieldSelector=metadata.name=b"},
	// What the client accepts.
	{path: "GET WORKS/a", header: "Accept: text/plain"},
	{path: "GET WORKS/a", header: "Accept: application/vnd.kubernetes.protobuf",
		differs: protobuf, want: `406 only the following media types are accepted: application/json, application/yaml`},
	{path: "GET WORKS/a", header: "Accept: application/vnd.kubernetes.protobuf, application/json"},
	{path: "GET WORKS/a", header: "Accept: application/json;as=Table;g=meta.k8s.io;v=v7"},
	{path: "GET WORKS/a", header: "Accept: application/json;as=Other;g=meta.k8s.io;v=v1"},
	{path: "GET WORKS/a", header: "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
		differs: typed, want: "406 you requested PartialObjectMetadataList, but the requested object is not a list " +
			"(*unstructured.Unstructured)"},
	{path: "GET WORKS", header: "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"},
	{path: "GET WORKS?includeObject=Some", header: "Accept: application/json;as=Table;g=meta.k8s.io;v=v1"},
	{path: "GET WORKS/a", header: "Accept: application/yaml"},
	{path: "GET WORKS", header: "Accept: application/yaml"},
	{path: "GET WORKS/a?pretty=true"},
	{path: "GET WORKS?pretty=true"},
	{path: "GET WORKS/a", header: "User-Agent: curl/8"},
	{path: "GET WORKS?fieldSelector=metadata.name=missing&pretty=true"},
	{path: "GET WORKS/missing", header: "Accept: application/yaml"},
	{path: "GET WORKS/missing", header: "Accept: text/plain"},
	{path: "GET WORKS?watch=true&timeoutSeconds=1", header: "Accept: application/yaml"},
	{path: "GET WORKS?watch=true&timeoutSeconds=1", header: "Accept: text/plain"},
	{path: "GET WORKS/a", header: "Accept: ,;"},
	{path: "GET WORKS/a", header: "Accept: */*;q=0"},
	// Deletions.
	{path: "DELETE WORKS/a?dryRun=Some"},
	{path: "DELETE WORKS/a?propagationPolicy=Some"},
	{path: "DELETE WORKS/a?gracePeriodSeconds=x"},
	{path: "DELETE WORKS/a?orphanDependents=true&propagationPolicy=Orphan"},
	{path: "DELETE WORKS/a", body: "{", header: asJSON},
	{path: "DELETE WORKS/a", body: "7", header: asJSON},
	{path: "DELETE WORKS/a", body: aWork, header: asJSON},
	{path: "DELETE WORKS/a", body: `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["No"]}`, header: asJSON},
	{path: "DELETE WORKS/a", body: `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"x"}}`,
		header: asJSON},
	{path: "DELETE WORKS/a", body: `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"resourceVersion":"1"}}`,
		header: asJSON},
	{path: "DELETE WORKS/a", body: `{"kind":"DeleteOptions","apiVersion":"v1"}`, header: "Content-Type: text/plain"},
	{path: "DELETE WORKS?labelSelector=-a"},
	{path: "DELETE WORKS?limit=-1"},
	{path: "DELETE WORKS?propagationPolicy=Some"},
	{path: "DELETE WORKS", body: "{", header: asJSON},
}

// TestMalformedRequests sends the same requests to an API server and to a source.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	cluster := kube.Shared(t)
	namespace := newWriter(t, cluster).namespace("malformed")
	testMalformed(t, newRawClient(t, cluster.Config(), namespace),
		newRawClient(t, sourceConfig(t, namespace), namespace))
}

// testMalformed sends the malformed requests to an API server and to a source.
func testMalformed(t *testing.T, server, door *rawClient) {
	t.Helper()
	first := raw{path: "POST WORKS", header: asJSON, body: strings.Replace(aWork, `"b"}`, `"a"},"spec":{"workload":`+
		`{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"}}]}}`, 1)}
	for _, c := range []*rawClient{server, door} {
		if a := c.send(t, first); a.code != http.StatusCreated {
			t.Fatalf("%+v", a)
		}
	}
	for _, r := range malformed {
		name := r.path + " " + r.header + " " + r.body[:min(len(r.body), 100)]
		t.Run(name, func(t *testing.T) {
			want, got := server.send(t, r), door.send(t, r)
			if want.body == "404 page not found" {
				want = foundNothing(want, got)
			}
			diff := gocmp.Diff(want, got, gocmp.AllowUnexported(answer{}))
			switch {
			case r.differs == "" && diff != "":
				t.Errorf("API server and source differ (-server +source):\n%s", diff)
			case r.differs != "" && diff == "":
				t.Error("the answers do not differ any more")
			case r.differs != "" && got.String() != r.want:
				t.Errorf("the source answered %s, want %s", got, r.want)
			}
		})
	}
}

type rawClient struct {
	http            *http.Client
	host, namespace string
}

func newRawClient(t *testing.T, config *rest.Config, namespace string) *rawClient {
	t.Helper()
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	c.Timeout = 2 * time.Minute
	return &rawClient{c, strings.TrimSuffix(config.Host, "/"), namespace}
}

// answer is the part of a response that must be equal.
type answer struct {
	code     int
	kind     string // Content-Type
	warnings []string
	headers  http.Header // others
	body     any
}

func (c *rawClient) send(t *testing.T, r raw) answer {
	t.Helper()
	method, path, _ := strings.Cut(r.path, " ")
	path = strings.ReplaceAll(path, "WORKS", "API/namespaces/NAMESPACE/manifestworks")
	path = strings.NewReplacer("API", "/apis/work.open-cluster-management.io/v1", "NAMESPACE", c.namespace).Replace(path)
	request, err := http.NewRequestWithContext(t.Context(), method, c.host+path, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(r.header, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			request.Header.Set(name, value)
		}
	}
	response, err := c.http.Do(request)
	if err != nil {
		return answer{body: "the connection ended"}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := answer{
		code: response.StatusCode, kind: response.Header.Get("Content-Type"), warnings: response.Header["Warning"],
		headers: response.Header, body: c.normal(body),
	}
	for _, name := range otherHeaders {
		response.Header.Del(name)
	}
	for name, values := range response.Header {
		response.Header[name] = slices.Compact(values) // both the API server and an aggregated server set Cache-Control
	}
	return out
}

// otherHeaders are those that an answer has in other fields, and those of the parts of an API server
// that a source in the process does not have: its connections, audit, and priority and fairness. Vary
// depends on the works of other tests: only long lists are compressed.
var otherHeaders = []string{
	"Vary", "Content-Type", "Warning", "Content-Length", "Date", "Audit-Id",
	"X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid",
}

var (
	uidText     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timeText    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	versionText = regexp.MustCompile(`(resourceVersion\\*":\s*\\*"|ResourceVersion in record \(|current: )\d+`)
)

// String returns the code and the message, for short comparisons.
func (a answer) String() string {
	body, _ := a.body.(map[string]any)
	if status, ok := body["object"].(map[string]any); ok {
		body = status // of a watch
	}
	return fmt.Sprint(a.code, " ", body["message"])
}

// foundNothing returns the answer to a path that does not exist. For the group of works, a source
// sends the Status into which client-go converts the text of an API server.
func foundNothing(server, source answer) answer {
	status, ok := source.body.(map[string]any)
	if !ok || status["reason"] != "NotFound" || status["code"] != 404.0 || status["kind"] != "Status" {
		return server
	}
	details, _ := status["details"].(map[string]any)
	cause := map[string]any{"reason": "UnexpectedServerResponse", "message": server.body}
	if details["group"] != workv1.GroupName || !reflect.DeepEqual(details["causes"], []any{cause}) {
		return server
	}
	server.kind, server.body = "application/json", source.body
	server.headers.Del("X-Content-Type-Options")
	return server
}

// ordered sorts the causes of a Status, which its message repeats: the API server's validator walks
// maps, so their order is random.
func ordered(status map[string]any) {
	details, _ := status["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	message, _ := status["message"].(string)
	if len(causes) < 2 {
		return
	}
	slices.SortFunc(causes, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	parts := strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune("[], ", r) })
	slices.Sort(parts)
	status["message"] = parts
}

// normal removes from a body what depends on the server and the time.
func (c *rawClient) normal(body []byte) any {
	if data, err := yaml.YAMLToJSON(body); err == nil {
		body = data // without indentation
	}
	text := strings.ReplaceAll(string(body), c.namespace, "NAMESPACE")
	text = uidText.ReplaceAllString(text, "UID")
	text = timeText.ReplaceAllString(text, "TIME")
	for _, member := range []string{ // the typed objects of a source have them
		`,"spec":{"workload":{}}`, `"continue":"",`,
		", application/vnd.kubernetes.protobuf;stream=watch",
		", application/vnd.kubernetes.protobuf", // of Tables and Statuses
	} {
		text = strings.ReplaceAll(text, member, "")
	}
	text = versionText.ReplaceAllString(text, `$1`)
	text = strings.NewReplacer("v1.ManifestWork", "unstructured.Unstructured", `version "`, `version"`,
		"application/json;stream=watch,\n  application/vnd.kubernetes.protobuf;stream=watch", "application/json;stream=watch",
	).Replace(text)
	var out any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return cmp.Or(strings.TrimSpace(text), "empty")
	}
	if list, ok := out.(map[string]any); ok {
		ordered(list)
		if items, ok := list["items"].([]any); ok { // other tests use the API server too
			list["items"] = slices.DeleteFunc(items, func(item any) bool {
				namespace, ok, _ := unstructured.NestedString(item.(map[string]any), "metadata", "namespace")
				return ok && namespace != "NAMESPACE"
			})
		}
	}
	return out
}
