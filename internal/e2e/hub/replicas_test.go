// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
	"github.com/spokewire/sdk-go/rsync/store/pgstore"
)

var (
	replicasFor = flag.Duration("hub.replicas", 0,
		"how long TestReplicas goes on with random troubles, after each kind once")
	replicaWorks = flag.Int("hub.works", 1000, "how many works the tests of replicas have")
	previous     = flag.String("hub.previous", "", "the `program` of the previous version, for TestRollingUpdate")
)

// worksOfCluster is the number of applications. Each has a work on each cluster.
const worksOfCluster = 25

// takeoverGoal is the time from a kill to the first accepted write, on a machine that does nothing
// else. The test logs it, and allows ten times as much.
const takeoverGoal = time.Second

// replicas are three hubs with one database and one broker, each behind its own proxies.
type replicas struct {
	t     *testing.T
	store *pgstore.Store // to find the leader
	hubs  []*replica
	fleet *fleet

	mu       sync.Mutex
	accepted map[string]int // versions, by application
	sent     map[string]int
}

type replica struct {
	*process
	url              string
	database, broker *tcpproxy.Proxy
}

func newReplicas(t *testing.T, works int) *replicas {
	t.Helper()
	server := postgres.Start(t, postgres.Options{})
	conn, err := url.Parse(server.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	broker := mosquitto.Start(t, mosquitto.Options{})
	r := &replicas{t: t, accepted: map[string]int{}, sent: map[string]int{}}
	if r.store, err = pgstore.Open(t.Context(), pgstore.Options{ConnString: conn.String(), Name: "hub"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.store.Close() })
	t.Setenv("PGPASSWORD", server.Password())
	conn.User = url.User(conn.User.Username())
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte("token-of-ann,ann,1,hub-editors\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		addr := daemon.FreeAddr(t).String()
		h := &replica{
			url: "http://" + addr, database: tcpproxy.Start(t, server.Addr()), broker: tcpproxy.Start(t, broker.Addr()),
		}
		conn.Host = h.database.Addr()
		h.process = newProcess(t, false, "hub", "--broker", "mqtt://"+h.broker.Addr(), "--store", conn.String(),
			"--listen", addr, "--patience", "10s", "--token-auth-file", tokens)
		r.hubs = append(r.hubs, h)
	}
	r.fleet = newFleet(t, broker.URL(), works/worksOfCluster)
	return r
}

// start starts a hub, and returns when it serves.
func (h *replica) start() {
	h.t.Helper()
	h.process.start()
	h.awaitLog(0, `"Started serving" url=`)
}

// cut breaks or repairs the network of a proxy: packets are lost.
func cut(p *tcpproxy.Proxy, broken bool) {
	if broken {
		p.Block()
		p.Stall()
		return
	}
	p.Unblock()
	p.Cut()
	p.Resume()
}

// call sends a request to a hub.
func (r *replicas) call(h *replica, method, path, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), map[string]time.Duration{
		http.MethodGet: 30 * time.Second, http.MethodPut: 3 * time.Second,
	}[method])
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, h.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Authorization", "Bearer token-of-ann")
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(data), err
}

// put sends a document to one hub after the other until it is accepted.
func (r *replicas) put(ctx context.Context, hubs []*replica, path, body string) error {
	for i := rand.IntN(len(hubs)); ctx.Err() == nil; i++ {
		code, text, err := r.call(hubs[i%len(hubs)], http.MethodPut, path, body)
		switch {
		case err == nil && code < 300:
			return nil
		case err == nil && code < 500:
			return fmt.Errorf("PUT %s: %d %s", path, code, text)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ctx.Err()
}

func (r *replicas) mustPut(hubs []*replica, path, body string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	if err := r.put(ctx, hubs, path, documentHead+body); err != nil {
		r.t.Fatal(err)
	}
}

// next puts the next version of an application.
func (r *replicas) next(ctx context.Context, hubs []*replica, name string) error {
	r.mu.Lock()
	version := r.accepted[name] + 1
	r.sent[name] = version
	r.mu.Unlock()
	err := r.put(ctx, hubs, "/api/v1/applications/"+name, fmt.Sprintf(documentHead+
		"kind: Application\nmetadata: {name: %s}\nspec:\n  parts:\n  - name: main\n    manifests:\n    - template: "+
		"'{apiVersion: v1, kind: ConfigMap, metadata: {name: %[1]s, namespace: x}, data: {v: \"%d\"}}'\n", name, version))
	if err == nil {
		r.mu.Lock()
		r.accepted[name] = version
		r.mu.Unlock()
	}
	return err
}

// leader returns the hub that leads by the database.
func (r *replicas) leader() (out *replica) {
	r.t.Helper()
	eventually(r.t, "a hub leads", func() error {
		kv, err := r.store.Get(r.t.Context(), "/hub/leader/")
		if err != nil {
			return err
		}
		for _, h := range r.hubs {
			if h.url == string(kv.Value) {
				out = h
				return nil
			}
		}
		return fmt.Errorf("the leader is %q", kv.Value)
	})
	return out
}

func (r *replicas) others(without *replica) []*replica {
	return slices.DeleteFunc(slices.Clone(r.hubs), func(h *replica) bool { return h == without })
}

// load puts new versions of applications until it is stopped.
func (r *replicas) load() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if err := r.next(ctx, r.hubs, application1(i%(worksOfCluster-1))); err != nil && ctx.Err() == nil {
				r.t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	group.Go(func() { r.watch(ctx) })
	return sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
}

func application1(i int) string { return fmt.Sprintf("app%02d", i) }

// probe is an application that the load does not change.
var probe = application1(worksOfCluster - 1)

// watch checks that no object goes back to an older version.
func (r *replicas) watch(ctx context.Context) {
	last := map[string]int{}
	for ctx.Err() == nil {
		for name, c := range r.fleet.clusters {
			for object, data := range c.Objects() {
				var content struct{ V string }
				_ = json.Unmarshal([]byte(data), &content)
				version, err := strconv.Atoi(content.V)
				if key := name + " " + object; err != nil || version < last[key] {
					r.t.Errorf("%s has %s, it had version %d", key, data, last[key])
				} else {
					last[key] = version
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// trouble is a failure of the leader, and its repair.
type trouble struct {
	name        string
	begin, end  func(h *replica)
	replaced    bool          // another replica must take over
	takesWrites time.Duration // goal
	records     []string      // of its log, in order
}

func troubles() []trouble {
	return []trouble{
		{"killed", func(h *replica) { h.kill() }, func(h *replica) { h.start() }, true, takeoverGoal, nil},
		{"frozen", func(h *replica) { h.run.Freeze() }, func(h *replica) { h.run.Thaw() }, true,
			6 * time.Second, nil},
		{"without database", func(h *replica) { cut(h.database, true) }, func(h *replica) { cut(h.database, false) }, true,
			6 * time.Second, []string{"Started again as a follower", "Detected the leader"}},
		{"without broker", func(h *replica) { cut(h.broker, true) }, func(h *replica) { cut(h.broker, false) }, false,
			takeoverGoal, []string{"Lost the connection to the broker", "Connected to the broker again"}},
		{"stopped", func(h *replica) { h.end() }, func(h *replica) { h.start() }, true, takeoverGoal, nil},
	}
}

// noticed is what a follower logs when the process of the leader has ended.
const noticed = "Detected the end of the leader"

// strike lets the leader fail. Another replica must accept a write. All replicas that run must serve
// the page, with the accepted documents, and must be ready after the repair.
func (r *replicas) strike(f trouble) {
	r.t.Helper()
	h := r.leader()
	var before []int
	for _, other := range r.others(h) {
		before = append(before, strings.Count(other.run.Log(), noticed))
	}
	logged := len(h.run.Log())
	f.begin(h)
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	if err := r.next(ctx, r.others(h), probe); err != nil {
		r.t.Fatalf("the leader is %s: %v", f.name, err)
	}
	took := time.Since(began)
	r.t.Logf("the leader is %s: another replica accepts a write after %v", f.name, took.Round(time.Millisecond))
	if took > 10*f.takesWrites {
		r.t.Errorf("the leader is %s: another replica accepts a write after %v, want %v", f.name, took, f.takesWrites)
	}
	if f.replaced && r.leader() == h {
		r.t.Errorf("%s leads although it is %s", h.url, f.name)
	}
	if f.name == "killed" { // and not by the end of its lease
		seen := false
		for i, other := range r.others(h) {
			seen = seen || strings.Count(other.run.Log(), noticed) > before[i]
		}
		if !seen {
			r.t.Error("no follower has noticed at once that the process of the leader has ended")
		}
	}
	r.serve(r.others(h))
	f.end(h)
	served := time.Now()
	r.serve(r.hubs)
	for _, record := range f.records {
		h.awaitLog(logged, record)
		logged += strings.Index(h.run.Log()[logged:], record)
	}
	r.t.Logf("after the repair all replicas are ready and serve in %v", time.Since(served).Round(time.Millisecond))
}

// serve waits until replicas are ready and serve the page, and the documents that were accepted
// before the call, or newer ones.
func (r *replicas) serve(hubs []*replica) {
	r.t.Helper()
	r.mu.Lock()
	accepted := maps.Clone(r.accepted)
	r.mu.Unlock()
	for _, h := range hubs {
		for _, path := range []string{"/readyz", "/", "/api/v1/status"} {
			eventually(r.t, h.url+path, func() error {
				code, text, err := r.call(h, http.MethodGet, path, "")
				if err == nil && code != http.StatusOK {
					err = fmt.Errorf("%d %s", code, text)
				}
				return err
			})
		}
		var all []struct {
			Metadata struct{ Name string }
			Spec     struct {
				Parts []struct{ Manifests []struct{ Template string } }
			}
		}
		eventually(r.t, "the documents at "+h.url, func() error {
			code, text, err := r.call(h, http.MethodGet, "/api/v1/applications", "")
			if err == nil && code != http.StatusOK {
				err = errors.New(text)
			}
			if err == nil {
				err = json.Unmarshal([]byte(text), &all)
			}
			return err
		})
		found := map[string]int{}
		for _, d := range all {
			_, text, _ := strings.Cut(d.Spec.Parts[0].Manifests[0].Template, `{v: "`)
			found[d.Metadata.Name], _ = strconv.Atoi(strings.TrimSuffix(text, `"}}`))
		}
		for name, version := range accepted {
			if found[name] < version {
				r.t.Errorf("%s has version %d of %s, it has accepted version %d", h.url, found[name], name, version)
			}
		}
	}
}

// TestReplicas runs three hubs on PostgreSQL and Mosquitto, and writes documents at all of them. The
// leader is killed, frozen, disconnected from the database and the broker, and stopped. No accepted
// document is lost, and each agent applies each object once for each version.
func TestReplicas(t *testing.T) {
	r := deployReplicas(t, *replicaWorks, "")
	stop := r.load()
	defer stop()
	all := troubles()
	for _, f := range all {
		r.strike(f)
	}
	for end := time.Now().Add(*replicasFor); time.Now().Before(end); {
		r.strike(all[rand.IntN(len(all))])
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
	}
	stop()
	r.finish()
}

// deployReplicas starts three hubs with a program, "" for the current one, and deploys
// applications.
func deployReplicas(t *testing.T, works int, program string) *replicas {
	t.Helper()
	r := newReplicas(t, works)
	for _, h := range r.hubs {
		h.program = cmp.Or(program, h.program)
		h.start()
	}
	for _, name := range slices.Sorted(maps.Keys(r.fleet.clusters)) {
		r.mustPut(r.hubs, "/api/v1/clusters/"+name, fmt.Sprintf("kind: Cluster\nmetadata: {name: %s}\n", name))
	}
	var names []string
	for i := range worksOfCluster {
		names = append(names, application1(i))
		if err := r.next(t.Context(), r.hubs, application1(i)); err != nil {
			t.Fatal(err)
		}
	}
	r.mustPut(r.hubs, "/api/v1/placements/all", fmt.Sprintf(
		"kind: Placement\nmetadata: {name: all}\nspec: {applications: [%s], clusters: {selector: {}}}\n",
		strings.Join(names, ", ")))
	r.fleet.have("deploy", r.objects)
	return r
}

// finish waits until the agents have the last accepted versions, and judges.
func (r *replicas) finish() {
	r.t.Helper()
	for name, version := range r.sent { // the last version may have been accepted without an answer
		if version > r.accepted[name] {
			if err := r.next(r.t.Context(), r.hubs, name); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	r.serve(r.hubs)
	r.fleet.have("the end", r.objects)
	r.judge()
}

// objects returns the objects of a cluster in the accepted versions.
func (r *replicas) objects(string) map[string]string {
	out := map[string]string{}
	for name, version := range r.accepted {
		out["ConfigMap x/"+name] = fmt.Sprintf(`{"v":"%d"}`, version)
	}
	return out
}

// judge checks what the agents did: each object was created once, never deleted, and updated at most
// once for each version.
func (r *replicas) judge() {
	r.t.Helper()
	total := 0
	for cluster, c := range r.fleet.clusters {
		counts := map[string]int{}
		for _, call := range c.Calls() {
			counts[call]++
		}
		for call, n := range counts {
			verb, object, _ := strings.Cut(call, " ")
			most := r.accepted[strings.TrimPrefix(object, "ConfigMap x/")] - 1
			if total += n; verb == "delete" || verb == "create" && n != 1 || verb == "update" && n > most {
				r.t.Errorf("%s: %d times %s, there were %d versions", cluster, n, call, most+1)
			}
		}
		if problems := c.Problems(); len(problems) > 0 {
			r.t.Errorf("%s: %v", cluster, problems)
		}
	}
	versions := 0
	for _, n := range r.accepted {
		versions += n
	}
	r.t.Logf("%d accepted documents, %d changes on the clusters", versions, total)
}
