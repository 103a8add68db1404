// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// These variables make this test binary a source or an agent that runs until it is killed.
const (
	killedRole   = "SPOKEWIRE_KILLED_ROLE"
	killedBroker = "SPOKEWIRE_KILLED_BROKER"
	killedStore  = "SPOKEWIRE_KILLED_STORE"
)

const (
	killedWriters = 3
	kills         = 30
	// killedLife limits the life of a victim that is not killed.
	killedLife = 2 * time.Minute
)

// TestTrouble10Killed: a source and an agent with stores in files are killed again and again, while
// works change. After each kill the store contains all results that the clientset has returned, all
// messages that were acknowledged to the broker, and all published messages. In the end both sides
// are equal.
func TestTrouble10Killed(t *testing.T) {
	switch os.Getenv(killedRole) {
	case "source":
		runSource(t)
		return
	case "agent":
		runAgent(t)
		return
	}
	t.Parallel()
	s := newScene(t, mosquitto.Options{})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	h, a := newVictim(s, "source"), newVictim(s, "agent")
	h.start()
	a.start()
	// An agent does not show its stored works before its initial sync.
	eventually(t, "the first status", func() string { return unless(a.relay.reported(), "none") })
	for range kills {
		v := h
		if random.IntN(2) == 0 {
			v = a
		}
		v.killAfter(1 + random.IntN(100))
		v.judge()
		v.start()
	}
	h.kill()
	a.kill()
	h.judge()
	a.judge()
	if h.returned == 0 || h.acked == 0 || a.acked == 0 {
		t.Error("nothing was acknowledged")
	}
	t.Logf("%d writes returned; the source acknowledged %d statuses and published %d specs, the agent %d specs and %d "+
		"statuses",
		h.returned, h.acked, h.published, a.acked, a.published)

	hub := s.source(work.SourceOptions{Store: h.file.store()})
	for _, obj := range hub.list() {
		if !strings.HasPrefix(obj.Name, "w") && obj.DeletionTimestamp == nil { // the last step was completed in part
			hub.delete("cluster1", obj.Name)
		}
	}
	spoke := s.agent(work.AgentOptions{Sources: []string{"hub"}, Store: a.file.store()})
	spoke.apply()
	want := make([]string, killedWriters)
	eventually(t, "both sides", func() string {
		for i := range want {
			value := valueOf(hub.get("cluster1", killedName(i)))
			want[i] = fmt.Sprintf("%s=%s/%s", killedName(i), value, value)
		}
		at, on := state(t, hub.works("cluster1")), state(t, spoke.works())
		return unless(at == join(want) && on == at, fmt.Sprintf("source %q, agent %q, want %q", at, on, join(want)))
	})
}

func killedName(writer int) string { return fmt.Sprintf("w%d", writer) }

// victim is a process that is killed and restarted again and again.
type victim struct {
	*scene
	role    string
	relay   *relay
	file    *file
	program *exec.Cmd
	read    sync.WaitGroup

	mu       sync.Mutex
	values   map[string]int      // written works, by name
	deleted  map[string]struct{} // works with a completed deletion
	returned int                 // completed writes of the clientset

	acked, published int
	held             map[string]bool // works that the store had at some time, or that were reported
}

func newVictim(s *scene, role string) *victim {
	return &victim{
		scene: s, role: role, relay: newRelay(s), file: newFile(s.t),
		values: map[string]int{}, deleted: map[string]struct{}{}, held: map[string]bool{},
	}
}

func (v *victim) start() {
	v.t.Helper()
	v.program = exec.CommandContext(v.t.Context(), os.Args[0], "-test.run=^TestTrouble10Killed$")
	v.program.Env = append(os.Environ(),
		killedRole+"="+v.role, killedBroker+"="+v.relay.addr(), killedStore+"="+v.file.path)
	v.program.Stderr = &logbook{}
	out, err := v.program.StdoutPipe()
	if err != nil {
		v.t.Fatal(err)
	}
	if err := v.program.Start(); err != nil {
		v.t.Fatal(err)
	}
	v.read.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			v.note(lines.Text())
		}
	})
}

// note processes a line of the program: a completed write.
func (v *victim) note(line string) {
	var name string
	var step int
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, err := fmt.Sscanf(line, "wrote %s %d", &name, &step); err == nil {
		v.values[name] = max(v.values[name], step)
		v.returned++
	} else if _, err := fmt.Sscanf(line, "deleted %s", &name); err == nil {
		v.deleted[name] = struct{}{}
		v.returned++
	}
}

// progress returns the number of the program's completed steps.
func (v *victim) progress() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.returned + v.relay.seen()
}

// killAfter kills the program after the given number of steps.
func (v *victim) killAfter(steps int) {
	v.t.Helper()
	begin := v.progress()
	eventually(v.t, "steps of the "+v.role, func() string {
		return unless(v.progress() >= begin+steps, "too few; it said "+v.program.Stderr.(*logbook).String())
	})
	v.kill()
}

func (v *victim) kill() {
	_ = v.program.Process.Kill()
	v.read.Wait() // its output before the kill counts
	if err := v.program.Wait(); v.program.ProcessState.Exited() {
		v.t.Errorf("the %s ended by itself: %v\n%s", v.role, err, v.program.Stderr)
	}
}

// judge compares the store of the killed program with its earlier output and messages.
func (v *victim) judge() {
	v.t.Helper()
	acked, published := v.relay.ended()
	v.acked, v.published = len(acked), len(published)
	works := map[string]*workv1.ManifestWork{}
	list, err := v.works().List(v.t.Context(), metav1.ListOptions{})
	if err != nil {
		v.t.Fatal(err)
	}
	for i := range list.Items {
		works[list.Items[i].Name] = &list.Items[i]
		v.held[list.Items[i].Name] = true
	}
	v.file.close()
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, step := range v.values {
		v.has(works[name], "value", name, step, "the clientset has returned")
	}
	for name := range v.deleted {
		v.gone(works[name], "the clientset has returned")
	}
	for _, m := range published {
		v.knows(works, m, "it has published")
	}
	for _, m := range acked {
		v.knows(works, m, "it has acknowledged")
	}
}

// works opens the store of the killed program.
func (v *victim) works() worktyped.ManifestWorkInterface {
	v.t.Helper()
	store, transport := v.file.store(), memory.New().Transport()
	if v.role == "source" {
		source, err := work.NewSource(transport, work.SourceOptions{SourceID: "hub", Store: store})
		if err != nil {
			v.t.Fatal(err)
		}
		return source.Clientset().WorkV1().ManifestWorks("cluster1")
	}
	agent, err := work.NewAgent(transport, work.AgentOptions{ClusterName: "cluster1", Store: store,
		InitialSyncTimeout: -1})
	if err != nil {
		v.t.Fatal(err)
	}
	return agent.Clientset().WorkV1().ManifestWorks("cluster1")
}

// knows checks that the works contain the content of a message, or something newer.
func (v *victim) knows(works map[string]*workv1.ManifestWork, m codec.Message, why string) {
	switch m := m.(type) {
	case *codec.Spec:
		if m.DeletionTimestamp != nil {
			v.gone(works[m.Name], why)
		} else if strings.HasPrefix(m.Name, "w") && v.held[m.Name] {
			// All other works are deleted, and the store may record that already. For a work that
			// it does not have, an agent may send a request instead.
			step, _ := strconv.Atoi(valueOf(m.Work))
			v.has(works[m.Name], "value", m.Name, step, why)
		}
	case *codec.Status:
		if m.Status != nil && strings.HasPrefix(m.Name, "w") {
			step, _ := strconv.Atoi(applied(&workv1.ManifestWork{Status: *m.Status}))
			v.held[m.Name] = v.held[m.Name] || step > 0
			v.has(works[m.Name], "status", m.Name, step, why)
		}
	}
}

func (v *victim) has(obj *workv1.ManifestWork, what, name string, step int, why string) {
	v.t.Helper()
	if obj == nil {
		v.t.Errorf("the %s has lost %s: %s", v.role, name, why)
		return
	}
	text := valueOf(obj)
	if what == "status" {
		text = applied(obj)
	}
	if got, _ := strconv.Atoi(text); got < step {
		v.t.Errorf("the %s has %s with the %s %d, but %s %d", v.role, name, what, got, why, step)
	}
}

func (v *victim) gone(obj *workv1.ManifestWork, why string) {
	v.t.Helper()
	if obj != nil && obj.DeletionTimestamp == nil {
		v.t.Errorf("the %s has lost the deletion of %s: %s", v.role, obj.Name, why)
	}
}

// openKilled returns the transport and the store of a victim.
func openKilled(t *testing.T) (*mqtt.Transport, work.Store) {
	t.Helper()
	transport, err := mqtt.New(mqtt.Options{BrokerURL: "mqtt://" + os.Getenv(killedBroker)})
	if err != nil {
		t.Fatal(err)
	}
	store, err := boltstore.Open(os.Getenv(killedStore), boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return transport, store // the kill closes the store
}

// runSource runs the source. Each of its writers increments a work's value. At every fifth step, it
// also creates and deletes another work.
func runSource(t *testing.T) {
	transport, store := openKilled(t)
	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "hub", Store: store})
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{client: &client{t: t, log: &logbook{}}, Source: source, id: "hub"}
	h.start(source)
	h.inventoryComplete()
	ctx, cancel := context.WithTimeout(t.Context(), killedLife)
	defer cancel()
	var group sync.WaitGroup
	for writer := range killedWriters {
		group.Go(func() {
			name, step := killedName(writer), 0
			if obj, err := h.works("cluster1").Get(ctx, name, metav1.GetOptions{}); err == nil {
				step, _ = strconv.Atoi(valueOf(obj))
			}
			for ; ctx.Err() == nil; time.Sleep(time.Millisecond) { // waits so the agent can keep up
				step++
				if err := h.writeKilled(ctx, name, step); err != nil {
					t.Errorf("step %d of %s: %v", step, name, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func (h *hub) writeKilled(ctx context.Context, name string, step int) error {
	works, value := h.works("cluster1"), fmt.Sprint(step)
	if step%5 == 0 {
		doomed := fmt.Sprintf("d-%s-%d", name, step)
		if _, err := works.Create(ctx, newWork(doomed, value), metav1.CreateOptions{}); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			return err // it may exist: this step was completed in part
		}
		if err := works.Delete(ctx, doomed, metav1.DeleteOptions{}); err != nil {
			return err
		}
		fmt.Printf("deleted %s\n", doomed)
	}
	for {
		obj, err := works.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = works.Create(ctx, newWork(name, value), metav1.CreateOptions{})
		case err == nil:
			obj.Spec = newWork(name, value).Spec
			_, err = works.Update(ctx, obj, metav1.UpdateOptions{})
		}
		if err == nil {
			fmt.Printf("wrote %s %d\n", name, step)
		}
		if !apierrors.IsConflict(err) { // a status arrived meanwhile
			return err
		}
	}
}

// runAgent runs the agent, with a work controller.
func runAgent(t *testing.T) {
	transport, store := openKilled(t)
	agent, err := work.NewAgent(transport, work.AgentOptions{ClusterName: "cluster1", Sources: []string{"hub"},
		Store: store})
	if err != nil {
		t.Fatal(err)
	}
	a := &spoke{client: &client{t: t, log: &logbook{}}, Agent: agent, cluster: "cluster1"}
	a.start(agent)
	a.apply()
	ctx, cancel := context.WithTimeout(t.Context(), killedLife)
	defer cancel()
	<-ctx.Done()
}
