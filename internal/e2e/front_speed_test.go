// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/internal/testing/worktest"
)

const frontClusters = 10

var frontFull = flag.Bool("front.full", false, "measure as many works and requests as BENCHMARKS.md")

// door is an API of ManifestWorks.
type door struct {
	name   string
	base   string
	client *http.Client
	marks  chan mark // of the watch
	rounds map[string][][]time.Duration
}

// mark is the arrival of an event with a value of the label "mark".
type mark struct {
	value string
	at    time.Time
}

// newDoor returns a door for a configuration. Two doors of one configuration share no connection.
func newDoor(t *testing.T, name string, config *rest.Config) *door {
	t.Helper()
	config = rest.CopyConfig(config)
	config.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	if config.Transport == nil {
		config.Dial = (&net.Dialer{}).DialContext // client-go shares connections of equal configurations
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &door{name: name, base: strings.TrimSuffix(config.Host, "/"), client: client, marks: make(chan mark, 1000),
		rounds: map[string][][]time.Duration{}}
}

// do sends a request and reads the response completely.
func (d *door) do(t *testing.T, method, path, contentType, body string) []byte {
	t.Helper()
	data, err := d.send(t.Context(), method, path, contentType, body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (d *door) send(ctx context.Context, method, path, contentType, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, d.base+frontPath+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "speed")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	response, err := d.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.name, err)
	}
	data, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s: %s %s: %s: %s", d.name, method, path, response.Status, data)
	}
	return data, err
}

func frontWork(i int) string {
	return fmt.Sprintf("/namespaces/cluster%d/manifestworks/w%d", i%frontClusters, i)
}

// fill creates n works with a JSON of least to most bytes.
func (d *door) fill(t *testing.T, n, least, most int) {
	t.Helper()
	const writers = 8
	var wait sync.WaitGroup
	for first := range writers {
		wait.Go(func() {
			for i := first; i < n; i += writers {
				name := fmt.Sprint("w", i)
				obj := worktest.New(name, "")
				obj.TypeMeta = metav1.TypeMeta{APIVersion: workv1.GroupVersion.String(), Kind: "ManifestWork"}
				empty, _ := json.Marshal(obj)
				full := worktest.New(name, digits(uint64(i), least+i%(most-least+1)-len(empty)))
				full.TypeMeta = obj.TypeMeta
				data, _ := json.Marshal(full)
				if _, err := d.send(t.Context(), http.MethodPost, fmt.Sprintf("/namespaces/cluster%d/manifestworks",
					i%frontClusters), "application/json", string(data)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
}

// digits returns random text of n hexadecimal digits. As much as usual manifests, it can be compressed.
func digits(seed uint64, n int) string {
	data := make([]byte, (n+1)/2)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)}).Read(data)
	return hex.EncodeToString(data)[:n]
}

// watch sends the marks of all later events.
func (d *door) watch(t *testing.T, from *rest.Config) {
	t.Helper()
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(d.do(t, http.MethodGet, "/manifestworks?limit=1", "", ""), &list); err != nil {
		t.Fatal(err)
	}
	other := newDoor(t, d.name, from)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		other.base+frontPath+"/manifestworks?watch=1&resourceVersion="+list.ResourceVersion, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := other.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		lines := bufio.NewReader(response.Body)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			_, rest, _ := bytes.Cut(line, []byte(`"mark":"`))
			value, _, _ := bytes.Cut(rest, []byte(`"`))
			d.marks <- mark{string(value), time.Now()}
		}
	})
	t.Cleanup(func() { cancel(); _ = response.Body.Close(); ended.Wait() })
}

// add records a duration in the current round.
func (d *door) add(what string, took time.Duration) {
	rounds := d.rounds[what]
	rounds[len(rounds)-1] = append(rounds[len(rounds)-1], took)
}

var frontRequests = []string{"get", "list", "patch", "event", "apply"}

// run sends each request of the comparison once.
func (d *door) run(t *testing.T, what, value string, i int) {
	t.Helper()
	begin := time.Now()
	switch what {
	case "get":
		d.do(t, http.MethodGet, frontWork(i), "", "")
	case "list":
		data := d.do(t, http.MethodGet, "/manifestworks?limit=500", "", "")
		defer func() {
			if n := bytes.Count(data, []byte(`"spec":`)); n != 500 {
				t.Fatalf("%s: a page of %d works", d.name, n)
			}
		}()
	case "patch":
		d.do(t, http.MethodPatch, frontWork(i), "application/merge-patch+json",
			fmt.Sprintf(`{"metadata":{"labels":{"mark":%q}}}`, value))
		defer func() { d.add("event", d.arrival(t, value).Sub(begin)) }()
	case "apply":
		path, kind := frontWork(i)+"?fieldManager=applier&force=true", "application/apply-patch+yaml"
		d.do(t, http.MethodPatch, path, kind, fmt.Sprintf(
			`{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"labels":{"applied":%q}}}`,
			value))
	}
	d.add(what, time.Since(begin))
}

// arrival returns when the event with a mark arrived.
func (d *door) arrival(t *testing.T, value string) time.Time {
	t.Helper()
	for limit := time.After(time.Minute); ; {
		select {
		case m := <-d.marks:
			if m.value == value {
				return m.at
			}
		case <-limit:
			t.Fatalf("%s: no event with the mark %s", d.name, value)
		}
	}
}

func frontPercentile(took []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[(len(sorted)-1)*percent/100]
}

// best returns the lowest percentile of all rounds: that of the round which other programs disturbed
// least.
func (d *door) best(what string, percent int) time.Duration {
	least := time.Duration(1<<63 - 1)
	for _, round := range d.rounds[what] {
		least = min(least, frontPercentile(round, percent))
	}
	return least
}

// listsEvery is the number of other requests for each list, which takes much longer.
const listsEvery = 4

// compare sends the requests to all doors, one after the other.
func compare(t *testing.T, doors []*door, works, rounds, samples int) {
	t.Helper()
	for round := range rounds {
		for _, d := range doors {
			for _, what := range frontRequests {
				d.rounds[what] = append(d.rounds[what], nil)
			}
		}
		for sample := range samples {
			for _, what := range []string{"get", "list", "patch", "apply"} {
				if what == "list" && sample%listsEvery > 0 {
					continue
				}
				i, value := rand.IntN(works), fmt.Sprintf("%d-%d", round, sample)
				for k := range doors {
					doors[(sample+k)%len(doors)].run(t, what, value, i)
				}
			}
		}
	}
}

// TestFrontSpeed compares an API server that has the CRD of ManifestWork with both doors of a
// source, over the same works. Requests to the three alternate. Neither etcd nor the store waits
// for the disk.
func TestFrontSpeed(t *testing.T) {
	// A door is not slower. The limits allow for a busy machine, where requests to any server wait
	// for a processor.
	works, rounds, samples, limits := 1000, 3, 40, map[int]float64{50: 1.25}
	if *frontFull {
		works, rounds, samples, limits = 5000, 8, 120, map[int]float64{50: 1.1, 99: 1.5}
	}
	cluster := startFrontCluster(t)
	broker := mosquitto.Start(t, mosquitto.Options{})
	source := startFrontSource(t, broker.URL(), "front1", frontFolder(t))
	inProcess, err := restconfig.FromSource(source)
	if err != nil {
		t.Fatal(err)
	}
	configs := []*rest.Config{cluster.Config(), inProcess, startFrontServer(t, broker, cluster).config}
	doors := make([]*door, len(configs))
	for i, name := range []string{"kube-apiserver", "door 1", "door 2"} {
		doors[i] = newDoor(t, name, configs[i])
		doors[i].fill(t, works, 2<<10, 4<<10)
		doors[i].watch(t, configs[i])
	}
	compare(t, doors, works, rounds, samples)
	for _, what := range frontRequests {
		for _, d := range doors {
			all := slices.Concat(d.rounds[what]...)
			t.Logf("%-5s %-14s p50 %v, p99 %v; best round: p50 %v, p99 %v", what, d.name,
				frontPercentile(all, 50), frontPercentile(all, 99), d.best(what, 50), d.best(what, 99))
		}
		for _, d := range doors[1:] {
			for percent, most := range limits {
				limit := time.Duration(most * float64(doors[0].best(what, percent)))
				if slow := d.best(what, percent); slow > limit {
					t.Errorf("%s: p%d of %s is %v, the limit is %v", what, percent, d.name, slow, limit)
				}
			}
		}
	}
}

// startFrontCluster starts an API server with the CRD and the namespaces of the clusters.
func startFrontCluster(t *testing.T) *kube.Cluster {
	t.Helper()
	cluster := kube.Start(t, kube.Options{CRDs: []string{kube.ManifestWorkCRDs(t)}})
	for i := range frontClusters {
		cluster.CreateNamespaces(fmt.Sprint("cluster", i))
	}
	return cluster
}

// frontFolder returns a folder in memory: the API server's etcd does not wait for the disk either.
func frontFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "front-") //nolint:usetesting // in memory
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

func startFrontSource(t *testing.T, broker, id, folder string) *work.Source {
	t.Helper()
	store, err := boltstore.Open(filepath.Join(folder, "works.db"), boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	transport, err := mqtt.New(mqtt.Options{BrokerURL: broker})
	if err != nil {
		t.Fatal(err)
	}
	source, err := work.NewSource(transport, work.SourceOptions{SourceID: id, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	background(t, source.Start)
	if err := source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	return source
}

// frontServer is a process that serves the works of its source.
type frontServer struct {
	config *rest.Config
	pid    int
}

// startFrontServer runs the program work-apiserver. It authenticates requests with the cluster.
func startFrontServer(t *testing.T, broker *mosquitto.Broker, cluster *kube.Cluster) *frontServer {
	t.Helper()
	folder := frontFolder(t)
	authority := certtest.New(t)
	certFile, keyFile := authority.Issue(t, "front").Write(t, folder, "tls")
	port := fmt.Sprint(daemon.FreeAddr(t).Port())
	kubeconfig := cluster.Kubeconfig()
	program := e2etest.Program(t, "work-apiserver", false)
	server, err := daemon.Start(program, "--broker", broker.URL(), "--source", "front2", "--store", folder,
		"--inventory-complete", "--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig,
		"--authorization-kubeconfig", kubeconfig, "--bind-address", "127.0.0.1", "--secure-port", port,
		"--tls-cert-file", certFile, "--tls-private-key-file", keyFile)
	if err != nil {
		t.Fatal(err)
	}
	server.StopAfter(t, "work-apiserver")
	config := cluster.Config()
	config.Host, config.CAFile, config.CAData = "https://127.0.0.1:"+port, authority.Write(t, folder, "ca"), nil
	eventually(t, "the server knows the authority of clients", func() error {
		d := newDoor(t, "door 2", config) // a connection keeps its user
		defer d.client.CloseIdleConnections()
		_, err := d.send(t.Context(), http.MethodGet, "/manifestworks", "", "")
		return err
	})
	return &frontServer{pid: server.PID(), config: config}
}

// children returns the processes that this one has started, by the name of their program.
func children(t *testing.T) map[string]int {
	t.Helper()
	pids := map[string]int{}
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		data, err := os.ReadFile(folder + "/stat")
		before, after, ok := strings.Cut(string(data), ") ")
		var state string
		var parent int
		if _, scan := fmt.Sscan(after, &state, &parent); err != nil || !ok || scan != nil || parent != os.Getpid() {
			continue
		}
		pid, name, _ := strings.Cut(before, " (")
		pids[name], _ = strconv.Atoi(pid)
	}
	return pids
}

// TestFrontMemorySpeed compares the works that fit into a GiB of memory: in the process of a source
// and its API server, and in an API server with the CRD and its etcd. Both have mapped a file with
// the works.
func TestFrontMemorySpeed(t *testing.T) {
	const bytes, goal = 2 << 10, 2
	works := 5000
	if *frontFull {
		works = 20_000
	}
	cluster := startFrontCluster(t)
	servers := children(t)
	front := startFrontServer(t, mosquitto.Start(t, mosquitto.Options{}), cluster)
	systems := []*struct {
		name         string
		config       *rest.Config
		pids         []int
		empty, total int
	}{
		{name: "door 2", config: front.config, pids: []int{front.pid}},
		{name: "kube-apiserver", config: cluster.Config(), pids: []int{servers["kube-apiserver"], servers["etcd"]}},
	}
	for _, s := range systems {
		d := newDoor(t, s.name, s.config)
		d.do(t, http.MethodGet, "/manifestworks?limit=500", "", "")
		for _, pid := range s.pids {
			s.empty += e2etest.Memory(t, pid, "VmRSS")
		}
		d.fill(t, works, bytes, bytes)
		d.do(t, http.MethodGet, "/manifestworks?limit=500", "", "")
	}
	for _, s := range systems {
		for _, pid := range s.pids {
			resident := e2etest.Memory(t, pid, "VmRSS")
			t.Logf("%s: process %d: %d MiB, of these %d of heap and stacks", s.name, pid, resident>>20,
				e2etest.Memory(t, pid, "RssAnon")>>20)
			s.total += resident
		}
		t.Logf("%s: %d MiB without works, %d MiB with %d works: %.0f works per GiB, and %.1f KiB more for each work", s.name,
			s.empty>>20, s.total>>20, works, float64(works<<30)/float64(s.total), float64(s.total-s.empty)/float64(works)/1024)
	}
	ratio := float64(systems[1].total) / float64(systems[0].total)
	t.Logf("%.1f times as many works per GiB", ratio)
	if ratio < goal {
		t.Errorf("fewer than %d times as many works per GiB", goal)
	}
}
