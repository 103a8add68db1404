// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package load_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

var attackFor = flag.Duration("load.hostile", 10*time.Second,
	"how long the hostile client of TestHostileClusterIsContained sends; the promise is for 60s")

const (
	honestClusters = 4
	honestRate     = 200 // round trips a second, of all honest clusters
	// hostileHeap is the limit of live heap in the source that a hostile cluster may cause.
	hostileHeap = 64 << 20
	// hostileRest is the limit of live heap that may stay: deletions of unknown works, within
	// MaxClusterBytes.
	hostileRest = 32 << 20
	// hostileReturn is the time limit for the release of the attack's leftovers, such as incomplete
	// lists.
	hostileReturn = time.Minute
)

// TestHostileClusterIsContained: a client with valid credentials of one cluster sends arbitrary
// messages at full rate. The live heap of its source stays limited and shrinks again, and the
// source serves other clusters meanwhile. The test logs their slowdown, and for comparison the
// slowdown if the source reads none of the messages: client, broker and source share the machine,
// and one connection to the broker carries the messages of all clusters.
func TestHostileClusterIsContained(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{Users: hostileUsers(), ACL: hostileACL()})
	h := startHonest(t, broker)
	if err := create(h.source.Clientset(), "rogue", "bait", "v"); err != nil {
		t.Fatal(err)
	}
	h.trips(2 * time.Second) // warm
	calm := h.trips(5 * time.Second)
	before := liveHeap()

	client := startAttack(t, attackOrder{Addr: broker.Addr(), User: "rogue", Cluster: "rogue", For: *attackFor})
	peak := watchHeap(t)
	busy := h.trips(*attackFor - 2*time.Second)
	client.wait(t)
	highest := peak()
	after := liveHeap()
	for deadline := time.Now().Add(hostileReturn); after-before > hostileRest &&
		time.Now().Before(deadline); after = liveHeap() {
		time.Sleep(time.Second)
	}
	again := startAttack(t, attackOrder{Addr: broker.Addr(), User: "rogue", Cluster: "rogue", For: *attackFor / 2})
	h.wire.unread.Store(true)
	floor := h.trips(*attackFor/2 - 2*time.Second)
	again.wait(t)
	t.Logf("p99 of %d honest round trips while the source reads nothing of the attack: %s", len(floor), p99(floor))
	t.Logf("sent: %s", client.output.String())
	t.Logf("live heap: %d KiB before, %d at most, %d after; p99 of %d honest round trips %s before, of %d %s meanwhile",
		before>>10, highest>>10, after>>10, len(calm), p99(calm), len(busy), p99(busy))
	if highest-before > hostileHeap {
		t.Errorf("the live heap grew by %d MiB, more than %d", (highest-before)>>20, hostileHeap>>20)
	}
	if after-before > hostileRest {
		t.Errorf("%d MiB of live heap stay after the attack", (after-before)>>20)
	}
	if len(busy) < len(calm)/20 {
		t.Errorf("%d honest round trips meanwhile, %d before", len(busy), len(calm))
	}
}

// hostileUsers maps users to passwords, which equal their names.
func hostileUsers() map[string]string {
	users := map[string]string{"hub": "hub", "rogue": "rogue"}
	for i := range honestClusters {
		users[honest(i)] = honest(i)
	}
	return users
}

func honest(i int) string { return fmt.Sprintf("honest%d", i) }

// hostileACL gives each user only the topics of ACCESS.md.
func hostileACL() string {
	acl := `user hub
topic write /sources/hub/clusters/+/manifests
topic read /sources/hub/clusters/+/manifestsstatus
topic read /sources/hub/clusters/+/specresync
topic write /sources/hub/clusters/+/statusresync
topic write /sources/hub/resync/clusters/manifestsstatus
topic read /sources/resync/+/manifests
topic readwrite /sources/hub/presence
`
	for user := range hostileUsers() {
		if user != "hub" {
			acl += strings.ReplaceAll(`
user CLUSTER
topic read /sources/+/clusters/CLUSTER/manifests
topic write /sources/+/clusters/CLUSTER/manifestsstatus
topic write /sources/+/clusters/CLUSTER/specresync
topic read /sources/+/clusters/CLUSTER/statusresync
topic read /sources/+/resync/clusters/manifestsstatus
topic write /sources/resync/CLUSTER/manifests
topic readwrite /clusters/CLUSTER/presence
`, "CLUSTER", user)
		}
	}
	return acl
}

// attackProcess is a running hostile client.
type attackProcess struct {
	cmd    *exec.Cmd
	stdout *bufio.Reader
	output bytes.Buffer // stderr, and the rest of stdout when it has ended
}

// startAttack starts a hostile client, and returns when it attacks.
func startAttack(t *testing.T, order attackOrder) *attackProcess {
	t.Helper()
	data, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	p := &attackProcess{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), attackEnv+"="+string(data))
	p.cmd.Stderr = &p.output
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	p.stdout = bufio.NewReader(stdout)
	if line, err := p.stdout.ReadString('\n'); err != nil || line != attackBegins+"\n" {
		p.wait(t)
		t.Fatalf("the hostile client printed %q, not %q", line, attackBegins)
	}
	return p
}

func (p *attackProcess) wait(t *testing.T) {
	t.Helper()
	rest, _ := io.ReadAll(p.stdout)
	err := p.cmd.Wait()
	p.output.Write(rest)
	if err != nil {
		t.Fatalf("the hostile client: %v: %s", err, p.output.String())
	}
}

// liveHeap collects garbage and returns the size of the live heap in bytes.
func liveHeap() int64 {
	var m runtime.MemStats
	for range 2 { // the second run frees objects with finalizers
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// watchHeap returns a function that ends the watch and returns the highest live heap of all garbage
// collections meanwhile.
func watchHeap(t *testing.T) func() int64 {
	ctx, cancel := context.WithCancel(t.Context())
	highest := make(chan int64, 1)
	go func() {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		var most int64
		for ctx.Err() == nil {
			metrics.Read(sample)
			most = max(most, int64(sample[0].Value.Uint64()))
			time.Sleep(20 * time.Millisecond)
		}
		highest <- most
	}()
	return func() int64 {
		cancel()
		return <-highest
	}
}

// honestHub is a source with agents that report on each version of their work.
type honestHub struct {
	t      *testing.T
	source *work.Source
	wire   *wire // of the source

	mu    sync.Mutex
	began map[string]map[int64]time.Time // updates in progress, by cluster and revision
	took  []time.Duration
	count atomic.Int64
}

func startHonest(t *testing.T, broker *mosquitto.Broker) *honestHub {
	t.Helper()
	as := func(user string) *wire {
		return newWire(t, mqtt.Options{BrokerURL: broker.URL(), Username: user, Password: user})
	}
	hub := as("hub")
	source, err := work.NewSource(hub, work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	h := &honestHub{t: t, source: source, wire: hub, began: map[string]map[int64]time.Time{}}
	start(t, source)
	informer(t, source.Clientset(),
		cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, now any) { h.ended(now.(*workv1.ManifestWork)) }})
	for i := range honestClusters {
		if err := create(source.Clientset(), honest(i), "app", "v"); err != nil {
			t.Fatal(err)
		}
	}
	if err := source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range honestClusters {
		agent, err := work.NewAgent(as(honest(i)), work.AgentOptions{ClusterName: honest(i), Sources: []string{"hub"}})
		if err != nil {
			t.Fatal(err)
		}
		start(t, agent)
		answer := func(obj any) {
			w := obj.(*workv1.ManifestWork)
			patch := fmt.Sprintf(
				`{"status":{"conditions":[{"type":"Applied","status":"True","reason":"Tested","message":%q,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, w.Labels["revision"])
			if message(w) == w.Labels["revision"] {
				return
			}
			if _, err := agent.Clientset().WorkV1().ManifestWorks(w.Namespace).Patch(context.Background(), w.Name,
				types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
				t.Error(err)
			}
		}
		informer(t, agent.Clientset(),
			cache.ResourceEventHandlerFuncs{AddFunc: answer, UpdateFunc: func(_, now any) { answer(now) }})
	}
	return h
}

// message returns the message of the first condition.
func message(w *workv1.ManifestWork) string {
	if len(w.Status.Conditions) == 0 {
		return ""
	}
	return w.Status.Conditions[0].Message
}

// ended records that the source shows a report. The report covers all earlier revisions too:
// several revisions may have one report.
func (h *honestHub) ended(w *workv1.ManifestWork) {
	revision, err := strconv.ParseInt(message(w), 10, 64)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for n, began := range h.began[w.Namespace] {
		if n <= revision {
			h.took = append(h.took, time.Since(began))
			delete(h.began[w.Namespace], n)
		}
	}
}

// trips makes round trips at a steady rate and returns the duration of each. A round trip that has
// not ended 30 s later counts as 30 s.
func (h *honestHub) trips(d time.Duration) []time.Duration {
	h.mu.Lock()
	h.took, h.began = nil, map[string]map[int64]time.Time{}
	for i := range honestClusters {
		h.began[honest(i)] = map[int64]time.Time{}
	}
	h.mu.Unlock()
	end := time.Now().Add(d)
	ticker := time.NewTicker(time.Second / honestRate)
	defer ticker.Stop()
	for time.Now().Before(end) {
		<-ticker.C
		n := h.count.Add(1)
		cluster, revision := honest(int(n)%honestClusters), strconv.FormatInt(n, 10)
		h.mu.Lock()
		h.began[cluster][n] = time.Now()
		h.mu.Unlock()
		patch := `{"metadata":{"labels":{"revision":"` + revision + `"}}}`
		if _, err := h.source.Clientset().WorkV1().ManifestWorks(cluster).Patch(context.Background(), "app",
			types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			h.t.Error(err)
		}
	}
	for end := time.Now().Add(30 * time.Second); h.underWay() > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, revisions := range h.began {
		for range revisions {
			h.took = append(h.took, 30*time.Second)
		}
	}
	return h.took
}

func (h *honestHub) underWay() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, revisions := range h.began {
		n += len(revisions)
	}
	return n
}

func p99(took []time.Duration) time.Duration {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return sorted[len(sorted)*99/100].Round(10 * time.Microsecond)
}
