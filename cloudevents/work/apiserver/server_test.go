// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/klog/v2"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/apiserver"
	"github.com/spokewire/sdk-go/internal/testing/background"
)

const (
	groupPath = "/apis/work.open-cluster-management.io"
	worksPath = groupPath + "/v1/namespaces/cluster1/manifestworks"
	patience  = 2 * time.Minute // on a busy machine
)

// alone returns the options of a server without a cluster, and its address.
func alone(t *testing.T) (*apiserver.Options, string) {
	t.Helper()
	o := apiserver.NewOptions()
	r := o.Recommended
	r.CoreAPI, r.Authentication, r.Authorization, r.Admission, r.Features = nil, nil, nil, nil, nil
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // usually closed by the server
	r.SecureServing.Listener = listener
	return o, listener.Addr().String()
}

// serve runs a server, and returns a function for requests to it.
func serve(t *testing.T, b apiserver.Backend, change func(*apiserver.Options)) (call call, stop func()) {
	t.Helper()
	o, address := alone(t)
	if change != nil {
		change(o)
	}
	server, err := apiserver.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	stop = background.Run(t, server.Start)
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	return func(method, path, body string, headers ...string) answer {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "https://"+address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		content, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer{response.StatusCode, response.Header, string(content)}
	}, stop
}

type call func(method, path, body string, headers ...string) answer

type answer struct {
	code   int
	header http.Header
	body   string
}

func newSource(t *testing.T, bus *memory.Bus) *work.Source {
	t.Helper()
	source, err := work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

const body = `{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"name":"a"},
	"spec":{"workload":{"manifests":[]}}}`

// TestEndedSource checks the probes and the requests before, during and after the life of a source.
func TestEndedSource(t *testing.T) {
	source := newSource(t, memory.New())
	request, _ := serve(t, source, nil)
	if got := request("GET", "/readyz", ""); got.code != http.StatusInternalServerError ||
		!strings.Contains(got.body, "[-]manifestworks failed") {
		t.Errorf("/readyz before the start: %d %s", got.code, got.body)
	}
	stop := background.Run(t, source.Start)
	<-source.Ready()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		got := request("GET", "/readyz", "")
		if got.code == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("/readyz: %d %s", got.code, got.body)
		}
	}
	if got := request("POST", worksPath, body, "Content-Type", "application/json"); got.code != http.StatusCreated {
		t.Fatalf("create: %d %s", got.code, got.body)
	}
	if got := request("GET", worksPath+"/a", ""); got.code != http.StatusOK {
		t.Errorf("get: %d %s", got.code, got.body)
	}
	stop()
	for _, method := range []string{"GET", "DELETE"} {
		got := request(method, worksPath+"/a", "")
		var status metav1.Status
		if err := json.Unmarshal([]byte(got.body), &status); err != nil || got.code != http.StatusServiceUnavailable ||
			status.Reason != metav1.StatusReasonServiceUnavailable || got.header.Get("Retry-After") == "" ||
			!strings.Contains(status.Message, "source") {
			t.Errorf("%s after the end: %d %v %s; want ServiceUnavailable with Retry-After", method, got.code, got.header,
				got.body)
		}
	}
	for path, check := range map[string]string{
		"/readyz": "[-]manifestworks failed", "/livez": "[-]manifestworks-running failed",
	} {
		if got := request("GET", path, ""); got.code == http.StatusOK || !strings.Contains(got.body, check) {
			t.Errorf("%s after the end: %d %s; want %s", path, got.code, got.body, check)
		}
	}
}

// verbs returns the verbs of the resource and its status from aggregated and plain discovery, which
// must agree.
func verbs(t *testing.T, request call) string {
	t.Helper()
	const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	var groups apidiscoveryv2.APIGroupDiscoveryList
	got := request("GET", "/apis", "", "Accept", accept)
	if err := json.Unmarshal([]byte(got.body), &groups); err != nil || len(groups.Items) != 1 {
		t.Fatalf("/apis: %v: %s", err, got.body)
	}
	if name := groups.Items[0].Name; name != "work.open-cluster-management.io" {
		t.Errorf("/apis has the group %s", name)
	}
	works := groups.Items[0].Versions[0].Resources[0]
	var list metav1.APIResourceList
	got = request("GET", groupPath+"/v1", "")
	if err := json.Unmarshal([]byte(got.body), &list); err != nil || len(list.APIResources) != 2 {
		t.Fatalf("%s/v1: %v: %s", groupPath, err, got.body)
	}
	aggregated := fmt.Sprint(works.Verbs, works.Subresources[0].Verbs)
	resources := list.APIResources
	if plain := fmt.Sprint([]string(resources[0].Verbs), []string(resources[1].Verbs)); plain != aggregated {
		t.Errorf("plain discovery has %s, aggregated discovery has %s", plain, aggregated)
	}
	return aggregated
}

func TestDiscovery(t *testing.T) {
	bus := memory.New()
	source := newSource(t, bus)
	agent, err := work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: "cluster1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		backend apiserver.Backend
		change  func(*apiserver.Options)
		want    string
		create  int
	}{
		{"source", source, nil,
			"[delete deletecollection get list patch create update watch] [get]", http.StatusCreated},
		{"read-only source", source, func(o *apiserver.Options) { o.ReadOnly = true },
			"[get list watch] [get]", http.StatusMethodNotAllowed},
		{"agent", agent, nil, "[get list patch update watch] [get patch update]", http.StatusMethodNotAllowed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			request, _ := serve(t, tt.backend, tt.change)
			if got := verbs(t, request); got != tt.want {
				t.Errorf("discovery has %s, want %s", got, tt.want)
			}
			got := request("POST", worksPath, body, "Content-Type", "application/json")
			if got.code != tt.create {
				t.Errorf("create: %d %s, want %d", got.code, got.body, tt.create)
			}
			for _, path := range []string{"/openapi/v3/apis/work.open-cluster-management.io/v1", "/openapi/v2"} {
				if got := request("GET", path, ""); got.code != http.StatusOK || !strings.Contains(got.body, "ManifestWork") {
					t.Errorf("%s: %d %.200s", path, got.code, got.body)
				}
			}
		})
	}
}

// TestMetricsHaveNoUnknownNames: only works and their status are labels of metrics. Otherwise, clients
// could fill the memory with names.
func TestMetricsHaveNoUnknownNames(t *testing.T) {
	request, _ := serve(t, newSource(t, memory.New()), nil)
	for _, path := range []string{
		worksPath, worksPath + "/a/status", worksPath + "/a/unknown1", groupPath + "/v1/unknown2", groupPath + "/unknown3/a",
	} {
		request("GET", path, "")
	}
	got := request("GET", "/metrics", "").body
	if strings.Contains(got, "unknown") {
		t.Error("the metrics have an unknown name")
	}
	for _, labels := range []string{
		`resource="manifestworks",scope="namespace",subresource=""`,
		`resource="manifestworks",scope="resource",subresource="status"`,
	} {
		if !strings.Contains(got, labels) {
			t.Errorf("the metrics have no %s", labels)
		}
	}
}

// TestAgent serves a source and an agent: a status that is written at the server of the agent reaches
// the server of the source.
func TestAgent(t *testing.T) {
	bus := memory.New()
	source := newSource(t, bus)
	agent, err := work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: "cluster1"})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, source.Start)
	background.Run(t, agent.Start)
	hub, _ := serve(t, source, nil)
	spoke, _ := serve(t, agent, nil)
	if got := hub("POST", worksPath, body, "Content-Type", "application/json"); got.code != http.StatusCreated {
		t.Fatalf("create: %d %s", got.code, got.body)
	}
	eventually := func(what string, request call, method, path, body, want string) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			got := request(method, path, body, "Content-Type", "application/merge-patch+json")
			if got.code == http.StatusOK && strings.Contains(got.body, want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d %s", what, got.code, got.body)
			}
		}
	}
	eventually("the agent has the work", spoke, "GET", worksPath+"/a", "", `"name":"a"`)
	const condition = `{"type":"Applied","status":"True","reason":"Done","message":"","observedGeneration":1,` +
		`"lastTransitionTime":"2026-01-01T00:00:00Z"}`
	eventually("patch of the status", spoke, "PATCH", worksPath+"/a/status",
		`{"status":{"conditions":[`+condition+`]}}`, `"Applied"`)
	eventually("the source has the status", hub, "GET", worksPath+"/a", "", `"Applied"`)
	if got := spoke("DELETE", worksPath+"/a", ""); got.code != http.StatusMethodNotAllowed ||
		!strings.Contains(got.body, "works are created and deleted at their source") {
		t.Errorf("delete at the agent: %d %s, want MethodNotAllowed", got.code, got.body)
	}
}

// TestNewLogsNoGroups: the log has no line of k8s.io/apiserver for the group of works.
func TestNewLogsNoGroups(t *testing.T) {
	var log bytes.Buffer
	klog.LogToStderr(false)
	defer klog.LogToStderr(true) // State.Restore would race with servers that end
	klog.SetOutput(&log)
	o, _ := alone(t)
	server, err := apiserver.New(newSource(t, memory.New()), o)
	klog.Flush()
	if err != nil || log.Len() == 0 || strings.Contains(log.String(), "GroupVersion") {
		t.Errorf("New: %v; the log: %s", err, &log)
	}
	background.Run(t, server.Start)
}

func TestStartTwice(t *testing.T) {
	o, _ := alone(t)
	server, err := apiserver.New(newSource(t, memory.New()), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := server.Start(ctx); err != nil {
		t.Errorf("Start: %v", err)
	}
	if err := server.Start(ctx); !errors.Is(err, cloudevents.ErrStarted) {
		t.Errorf("second Start: %v, want ErrStarted", err)
	}
}

// otherClientset is a backend with a clientset of another package.
type otherClientset struct{ *work.Source }

func (otherClientset) Clientset() workclientset.Interface { return &workclientset.Clientset{} }

func TestInvalidOptions(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a pod
	source := newSource(t, memory.New())
	for want, change := range map[string]func(*apiserver.Options){
		"invalid Options.Recommended:":               func(o *apiserver.Options) { o.Recommended = nil },
		"invalid Options.Recommended.SecureServing:": func(o *apiserver.Options) { o.Recommended.SecureServing = nil },
		"invalid Options.Recommended.Etcd:": func(o *apiserver.Options) {
			o.Recommended.Etcd = &genericoptions.EtcdOptions{}
		},
		"invalid Options.ShutdownDelay: -1s":    func(o *apiserver.Options) { o.ShutdownDelay = -time.Second },
		"invalid Options.WatchGracePeriod: -1s": func(o *apiserver.Options) { o.WatchGracePeriod = -time.Second },
		"the server needs a secure port": func(o *apiserver.Options) {
			o.Recommended.SecureServing.BindPort, o.Recommended.SecureServing.Listener = 0, nil
			o.Recommended.SecureServing.Required = false
		},
		"set --kubeconfig":        func(o *apiserver.Options) { o.Recommended.CoreAPI = genericoptions.NewCoreAPIOptions() },
		"--secure-port 0 must be": func(o *apiserver.Options) { o.Recommended.SecureServing.BindPort = 0 },
		"--secure-port":           func(o *apiserver.Options) { o.Recommended.SecureServing.BindPort = -1 },
	} {
		o, _ := alone(t)
		change(o)
		if _, err := apiserver.New(source, o); err == nil || !strings.HasPrefix(err.Error(), "apiserver.New: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %s", err, want)
		}
	}
	if _, err := apiserver.New(nil, apiserver.NewOptions()); err == nil {
		t.Error("New accepts a nil backend")
	}
	if _, err := apiserver.New(otherClientset{source}, apiserver.NewOptions()); err == nil ||
		!strings.Contains(err.Error(), "must be a *work.Source or a *work.Agent") {
		t.Errorf("New with another clientset: %v", err)
	}
	if _, err := apiserver.New(source, nil); err == nil {
		t.Error("New accepts nil options")
	}
}
