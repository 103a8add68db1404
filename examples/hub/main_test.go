// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/examples/hub/schema"
	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/internal/testing/agenttest"
	"github.com/spokewire/sdk-go/internal/testing/background"
	"github.com/spokewire/sdk-go/internal/testing/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 2 * time.Minute

// site is a hub in this process, with agents on the same bus.
type site struct {
	t        *testing.T
	bus      *memory.Bus
	options  options
	clusters map[string]*agenttest.Cluster
	url      string
	trusted  *x509.CertPool // the CA of the hub, with HTTPS
	stop     func()
	said     *lines
	lost     bool // the test loses state; otherwise each work must belong to an application
}

// lines collects the messages of the hub.
type lines struct {
	mu    sync.Mutex
	all   []string
	url   chan string
	first sync.Once
}

var serving = regexp.MustCompile(`msg="Started serving" url=(https?://\S+)`)

// Write adds a record of the log.
func (l *lines) Write(record []byte) (int, error) {
	line := strings.ReplaceAll(string(record), `\"`, `"`)
	l.mu.Lock()
	l.all = append(l.all, line)
	l.mu.Unlock()
	if at := serving.FindStringSubmatch(line); at != nil {
		l.first.Do(func() { l.url <- at[1] })
	}
	return len(record), nil
}

// log returns a context with the log of a hub.
func (l *lines) log(ctx context.Context) context.Context {
	return klog.NewContext(ctx, logging.New(l, logging.Options{}))
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

func newSite(t *testing.T, clusters ...string) *site {
	t.Helper()
	s := &site{t: t, bus: memory.New(), clusters: map[string]*agenttest.Cluster{}}
	o, err := parse([]string{"--broker", "mqtt://none", "--listen", "127.0.0.1:0", "--store", t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.options = o
	t.Cleanup(func() {
		if t.Failed() && s.said != nil {
			t.Logf("the hub said:\n%s", s.said)
		}
	})
	for _, name := range clusters {
		s.agent(name)
	}
	return s
}

func (s *site) transport() (cloudevents.Transport, error) { return s.bus.Transport(), nil }

// agent runs the agent of a cluster until stop is called or the test ends.
func (s *site) agent(name string) (stop func()) {
	s.t.Helper()
	return s.agentOver(s.bus.Transport(), name)
}

func (s *site) agentOver(transport cloudevents.Transport, name string) (stop func()) {
	s.t.Helper()
	cluster := s.clusters[name]
	if cluster == nil {
		cluster = agenttest.NewCluster()
		s.clusters[name] = cluster
	}
	a, err := work.NewAgent(transport, work.AgentOptions{ClusterName: name, Sources: []string{"hub"},
		InitialSyncTimeout: 100 * time.Millisecond})
	if err != nil {
		s.t.Fatal(err)
	}
	stopAgent := background.Run(s.t, a.Start)
	stopApplying := background.Run(s.t, func(ctx context.Context) error {
		return agenttest.Run(ctx, cluster, a.Clientset(), name)
	})
	return func() { stopApplying(); stopAgent() }
}

// start runs the hub. After stop, it runs another hub with the same store.
func (s *site) start() {
	s.t.Helper()
	if s.options.shared() && s.options.Login.TokenFile == "" {
		s.options.Login.TokenFile = filepath.Join(s.t.TempDir(), "tokens.csv")
		s.file(s.options.Login.TokenFile, editorToken+",ann,1,hub-editors\n")
	}
	s.said = &lines{url: make(chan string, 1)}
	said := s.said
	s.stop = background.Run(s.t, func(ctx context.Context) error {
		defer func() {
			if strings.Contains(said.String(), "No application has") && !s.lost {
				s.t.Error(said)
			}
		}()
		return start(said.log(ctx), s.options, s.transport)
	})
	select {
	case s.url = <-said.url:
	case <-time.After(patience):
		s.t.Fatal("the hub does not serve")
	}
}

// editorToken is a token of hubs with a database.
const editorToken = "secret-of-ann"

// tokenFile returns a file with a token of an editor.
func (s *site) tokenFile() string {
	if !s.options.shared() {
		return filepath.Join(s.options.Store, "admin.token")
	}
	file := filepath.Join(s.t.TempDir(), "token")
	s.file(file, editorToken)
	return file
}

func (s *site) file(name, content string) {
	s.t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// login adds the token of an editor to a request.
func (s *site) login(r *http.Request) {
	s.t.Helper()
	token, err := os.ReadFile(s.tokenFile())
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
}

// call sends a request of an editor. It returns the status code and the body.
func (s *site) call(method, path, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	s.login(r)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if answer.Header.Get("Content-Type") == "application/json" && strings.HasPrefix(path, "/api/v1/") {
		api, err := published()
		if err == nil {
			err = api.Response(method, r.URL.Path, answer.StatusCode, data)
		}
		if err != nil {
			s.t.Errorf("%v: %s", err, data)
		}
	}
	return answer.StatusCode, string(data)
}

// published has the OpenAPI document.
var published = sync.OnceValues(func() (*schematest.Document, error) { return schematest.New(schema.OpenAPI) })

// must sends a request that must succeed.
func (s *site) must(method, path, body string) string {
	s.t.Helper()
	code, text := s.call(method, path, body)
	if code >= 300 {
		s.t.Fatalf("%s %s: %d %s", method, path, code, text)
	}
	return text
}

// status waits until an application has settled. It returns the status, the revision and the
// reason.
func (s *site) status(application string) string {
	s.t.Helper()
	var out struct{ Sync, Health, Revision, Reason string }
	if err := json.Unmarshal([]byte(s.must("GET", "/api/v1/applications/"+application+"/status?wait=2m", "")),
		&out); err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(out.Sync + " " + out.Health + " " + out.Revision + " " + out.Reason)
}

// objects waits until a cluster has exactly the objects of want: "web={...}" and so on.
func (s *site) objects(cluster string, want ...string) {
	s.t.Helper()
	slices.Sort(want)
	var got []string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		objects := s.clusters[cluster].Objects()
		got = nil
		for _, name := range slices.Sorted(maps.Keys(objects)) {
			got = append(got, strings.TrimPrefix(name, "ConfigMap ")+"="+objects[name])
		}
		if slices.Sort(got); slices.Equal(got, want) {
			return
		}
	}
	s.t.Fatalf("%s (-want +got):\n%s", cluster, cmp.Diff(want, got))
}

// write writes a file to the folder of documents.
func (s *site) write(name, content string) {
	s.t.Helper()
	file := filepath.Join(s.options.Dir, name)
	if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		s.t.Fatal(err)
	}
}

// TestSamples checks that the hub deploys the samples.
func TestSamples(t *testing.T) {
	s := newSite(t, "cluster1", "cluster2")
	s.options.Dir = "samples"
	s.start()
	if got := s.status("shop"); got != "Synced Healthy 1" {
		t.Errorf("status %q", got)
	}
	for cluster, region := range map[string]string{"cluster1": "north", "cluster2": "south"} {
		s.objects(cluster, `Namespace /shop={"apiVersion":"v1","kind":"Namespace","metadata":{`+
			`"labels":{"hub.spokewire.io/application":"shop"},"name":"shop"}}`,
			`shop/database={"place":"`+region+`","size":"small"}`, `shop/web={"greeting":"Welcome to the shop on `+cluster+`"}`)
		if problems := s.clusters[cluster].Problems(); len(problems) > 0 {
			t.Error(problems)
		}
	}
}
