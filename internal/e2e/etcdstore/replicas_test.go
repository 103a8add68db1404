// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/etcdstore"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
	"github.com/spokewire/sdk-go/internal/testing/worktest"
)

const cluster = "cluster1"

// replica is a replica of the source hub with a connection of its own to etcd.
type replica struct {
	*work.Source
	proxy *tcpproxy.Proxy
}

func (r *replica) works() worktyped.ManifestWorkInterface {
	return r.Clientset().WorkV1().ManifestWorks(cluster)
}

func startReplica(t *testing.T, etcd *server, bus *memory.Bus, timeout time.Duration) *replica {
	t.Helper()
	proxy := tcpproxy.Start(t, etcd.addr)
	source, err := work.NewSource(bus.Transport(), work.SourceOptions{
		SourceID: "hub", SharedGroup: "hubs",
		Store: openStore(t, "http://"+proxy.Addr(), etcdstore.Options{Timeout: timeout}),
	})
	if err != nil {
		t.Fatal(err)
	}
	e2etest.Background(t, source.Start)
	<-source.Ready()
	return &replica{source, proxy}
}

// set changes the value of a work, or creates the work. It tries only once.
func (r *replica) set(ctx context.Context, name, value string) error {
	if err := r.Lead(ctx); err != nil {
		return err
	}
	obj, err := r.works().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		_, err = r.works().Create(ctx, worktest.New(name, value), metav1.CreateOptions{})
		return err
	}
	obj.Spec = worktest.New(name, value).Spec
	_, err = r.works().Update(ctx, obj, metav1.UpdateOptions{})
	return err
}

// values returns the values of all works.
func values(t *testing.T, works worktyped.ManifestWorkInterface) map[string]string {
	t.Helper()
	list, err := works.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for i := range list.Items {
		out[list.Items[i].Name] = worktest.Value(t, &list.Items[i])
	}
	return out
}

// TestReplicasTakeOver: two replicas write in turn while their connections to etcd stall and break
// and etcd is killed. At the end both replicas and the agent have the same works, and no
// acknowledged write is lost.
func TestReplicasTakeOver(t *testing.T) {
	t.Parallel()
	etcd, bus := startServer(t), memory.New()
	replicas := []*replica{startReplica(t, etcd, bus, 3*time.Second), startReplica(t, etcd, bus, 3*time.Second)}
	e2etest.Eventually(t, "complete", func() error { return replicas[0].InventoryComplete(t.Context()) })
	agent, err := work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: cluster})
	if err != nil {
		t.Fatal(err)
	}
	e2etest.Background(t, agent.Start)

	random := rand.New(rand.NewPCG(3, 4))
	const works, rounds = 20, 30
	acknowledged, attempted := map[string]int{}, map[string]int{}
	number, failed := 0, 0
	for round := range rounds {
		r := replicas[random.IntN(2)]
		other := replicas[0]
		if r == other {
			other = replicas[1]
		}
		switch fault := round % 5; fault {
		case 1:
			other.proxy.Stall() // the leader of before may have a write in transit
		case 2:
			other.proxy.Resume()
			r.proxy.Cut()
		case 3:
			etcd.process.Kill()
			etcd.start()
		}
		for range 10 {
			name := fmt.Sprint("w", random.IntN(works))
			number++
			attempted[name] = number
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if err := r.set(ctx, name, strconv.Itoa(number)); err != nil {
				failed++
			} else {
				acknowledged[name] = number
			}
			cancel()
		}
		for _, r := range replicas {
			r.proxy.Resume()
		}
	}
	e2etest.Eventually(t, "the last write", func() error { return replicas[1].set(t.Context(), "last", "1") })
	var got map[string]string
	e2etest.Eventually(t, "the replicas and the agent", func() error {
		got = values(t, replicas[0].works())
		return errors.Join(
			differ("the second replica", got, values(t, replicas[1].works())),
			differ("the agent", got, values(t, agent.Clientset().WorkV1().ManifestWorks(cluster))),
		)
	})
	for name, least := range acknowledged {
		value, err := strconv.Atoi(got[name])
		if err != nil || value < least || value > attempted[name] {
			t.Errorf("%s has the value %q, the last acknowledged one is %d, the last attempt %d", name, got[name], least,
				attempted[name])
		}
	}
	if keys := left(t, etcd.admin(), etcdstore.DefaultPrefix); len(keys) > 0 {
		t.Errorf("etcd has %q", keys)
	}
	t.Logf("%d writes, %d failed", number, failed)
	if failed == number {
		t.Error("no write succeeded")
	}
}

func differ(who string, want, got map[string]string) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%s (-first replica +got):\n%s", who, diff)
	}
	return nil
}

// TestTakeoverIsFast: another replica accepts writes after the leader lost its connection to etcd,
// without waiting for a timeout. The former leader reports that it is not healthy, and refuses
// writes.
func TestTakeoverIsFast(t *testing.T) {
	t.Parallel()
	etcd, bus := startServer(t), memory.New()
	one, two := startReplica(t, etcd, bus, 3*time.Second), startReplica(t, etcd, bus, limit)
	e2etest.Eventually(t, "complete", func() error { return one.InventoryComplete(t.Context()) })
	e2etest.Eventually(t, "write", func() error { return one.set(t.Context(), "w", "1") })
	one.proxy.Stall()
	began := time.Now()
	if err := two.set(t.Context(), "w", "2"); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("takeover after %s", took)
	if took > limit/2 {
		t.Errorf("the takeover took %s", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := one.set(ctx, "w", "3"); err == nil {
		t.Error("the former leader accepted a write")
	}
	e2etest.Eventually(t, "Healthy", func() error {
		if err := one.Healthy(); !errors.Is(err, etcdstore.ErrUnreachable) {
			return fmt.Errorf("it returns %w", errors.Join(errors.New("another error"), err))
		}
		return nil
	})
	one.proxy.Resume()
	e2etest.Eventually(t, "the former leader", func() error {
		return errors.Join(one.Healthy(), differ("it", map[string]string{"w": "2"}, values(t, one.works())))
	})
}
