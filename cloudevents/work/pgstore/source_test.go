// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/pgstore"
	"github.com/spokewire/sdk-go/internal/testing/background"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

const cluster = "cluster1"

func newSource(t *testing.T, bus *memory.Bus, group string, store work.Store) *work.Source {
	t.Helper()
	source, err := work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub", SharedGroup: group, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func create(ctx context.Context, source *work.Source, name string) error {
	_, err := source.Clientset().WorkV1().ManifestWorks(cluster).Create(ctx, &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{
			RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)},
		}}}},
	}, metav1.CreateOptions{})
	return err
}

// sees waits until a source or agent has exactly these works, without deletions.
func sees(t *testing.T, clientset interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*workv1.ManifestWork, error)
	List(ctx context.Context, options metav1.ListOptions) (*workv1.ManifestWorkList, error)
}, names ...string) {
	t.Helper()
	eventually(t, func() error {
		list, err := clientset.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var got []string
		for i := range list.Items {
			if list.Items[i].DeletionTimestamp == nil {
				got = append(got, list.Items[i].Name)
			}
		}
		if strings.Join(got, " ") != strings.Join(names, " ") {
			return fmt.Errorf("the works are %v, want %v", got, names)
		}
		return nil
	})
}

// TestRestoredBackup: a backup made with pg_dump while the source runs, restored with pg_restore.
// The source detects it, and deletes no work that is newer than the backup.
func TestRestoredBackup(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	original := server.Database(t)
	bus := memory.New()
	agent, err := work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: cluster, Sources: []string{"hub"}})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, agent.Start)
	works := agent.Clientset().WorkV1().ManifestWorks(cluster)
	store := open(t, pgstore.Options{ConnString: original})
	source := newSource(t, bus, "", store)
	stop := background.Run(t, source.Start)
	if err := errors.Join(source.InventoryComplete(t.Context()), create(t.Context(), source, "before")); err != nil {
		t.Fatal(err)
	}
	sees(t, works, "before")
	file := filepath.Join(server.SharedFolder(t), "backup")
	server.Program(t, "pg_dump", "--format=custom", "--schema=spokewire", "--file="+file, databaseOf(original))
	if err := create(t.Context(), source, "later"); err != nil {
		t.Fatal(err)
	}
	sees(t, works, "before", "later")
	stop()

	restored := server.Database(t)
	server.Program(t, "pg_restore", "--clean", "--if-exists", "--exit-on-error", "--dbname="+databaseOf(restored), file)
	source = newSource(t, bus, "", open(t, pgstore.Options{ConnString: restored}))
	background.Run(t, source.Start)
	eventually(t, func() error {
		const want = "the Store is older than the works of 1 clusters"
		if err := source.Healthy(); err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("Healthy: %w", err)
		}
		return nil
	})
	sees(t, works, "before", "later")
	if err := create(t.Context(), source, "later"); err != nil { // as STORES.md describes
		t.Fatal(err)
	}
	if err := source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, source.Healthy)
	sees(t, works, "before", "later")
}

// TestTakeover: two replicas share a store. The second continues after the first has ended, and no
// write that returned nil is lost.
func TestTakeover(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	db := server.Database(t)
	bus := memory.New()
	var sources []*work.Source
	var stops []func()
	for range 2 {
		source := newSource(t, bus, "hubs", open(t, pgstore.Options{ConnString: db}))
		sources, stops = append(sources, source), append(stops, background.Run(t, source.Start))
		<-source.Ready()
	}
	var names []string
	for i := range 10 {
		name := fmt.Sprintf("work%d", i)
		if err := create(t.Context(), sources[0], name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	stops[0]()
	began := time.Now()
	eventually(t, func() error {
		err := create(t.Context(), sources[1], "work99")
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	t.Logf("the second replica wrote after %v", time.Since(began))
	sees(t, sources[1].Clientset().WorkV1().ManifestWorks(cluster), append(names, "work99")...)
	if err := sources[1].Healthy(); err != nil {
		t.Errorf("Healthy: %v", err)
	}
}

// TestServerIsAway: Healthy of each replica names the cause while the server is down, and returns
// nil when it is back. Writes continue.
func TestServerIsAway(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	db := server.Database(t)
	bus := memory.New()
	var sources []*work.Source
	for range 2 {
		source := newSource(t, bus, "hubs", open(t, pgstore.Options{ConnString: db, RetryTimeout: 200 * time.Millisecond}))
		background.Run(t, source.Start)
		<-source.Ready()
		sources = append(sources, source)
	}
	if err := create(t.Context(), sources[0], "before"); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	for i, source := range sources {
		eventually(t, func() error {
			err := source.Healthy()
			if err == nil || !strings.Contains(err.Error(), "follow the Store") ||
				!strings.Contains(err.Error(), "unreachable") || strings.Contains(err.Error(), server.Password()) {
				return fmt.Errorf("replica %d: Healthy: %w", i, err)
			}
			return nil
		})
	}
	if err := create(t.Context(), sources[0], "during"); err == nil {
		t.Error("a write returned nil without a server")
	}
	server.Restart()
	for _, source := range sources {
		eventually(t, source.Healthy)
	}
	if err := create(t.Context(), sources[1], "after"); err != nil {
		t.Fatal(err)
	}
}

// TestPartitionedLeader: the leader loses its network to the server in the middle of a write.
// Another replica takes over. When the network is back, the write of the former leader is refused,
// and both replicas show the same works.
func TestPartitionedLeader(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	db := server.Database(t)
	proxy := tcpproxy.Start(t, server.Addr())
	bus := memory.New()
	through := strings.Replace(db, server.Addr(), proxy.Addr(), 1)
	first := newSource(t, bus, "hubs", open(t, pgstore.Options{ConnString: through}))
	second := newSource(t, bus, "hubs", open(t, pgstore.Options{ConnString: db}))
	background.Run(t, first.Start)
	background.Run(t, second.Start)
	<-first.Ready()
	<-second.Ready()
	if err := create(t.Context(), first, "before"); err != nil {
		t.Fatal(err)
	}
	proxy.Stall()
	late := make(chan error, 1)
	go func() { late <- create(t.Context(), first, "late") }()
	time.Sleep(200 * time.Millisecond) // the write has left the process
	began := time.Now()
	if err := create(t.Context(), second, "after"); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("the second replica wrote after %v", took)
	if took > 3*time.Second { // 1 s is promised
		t.Errorf("the takeover took %v", took)
	}
	proxy.Resume()
	if err := <-late; !apierrors.IsServiceUnavailable(err) {
		t.Errorf("the late write: %v, want ServiceUnavailable", err)
	}
	for _, source := range []*work.Source{first, second} {
		sees(t, source.Clientset().WorkV1().ManifestWorks(cluster), "after", "before")
		eventually(t, source.Healthy)
	}
	if err := create(t.Context(), first, "again"); err != nil {
		t.Errorf("the first replica leads again: %v", err)
	}
}
