// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/worktest"
)

// accessLog is an authorizer that allows everything, and records each access as a row of PROTOCOL.md.
type accessLog struct {
	mu   sync.Mutex
	rows map[string]bool
}

// Authorize implements [grpc.Authorizer].
func (l *accessLog) Authorize(_ context.Context, a grpc.Access) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows[fmt.Sprintf("| `%s` | %v | `%s` | %q | %q | %v |", a.Topic, a.Write, a.Role, a.Source, a.Cluster,
		a.Broadcast)] = true
	return nil
}

func (l *accessLog) has(row string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows[row]
}

func (l *accessLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.rows))
}

// documentedAccess returns the rows of the table in PROTOCOL.md.
func documentedAccess(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Access\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| `") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	return rows
}

// TestAccessOfWorkClients checks that the table in PROTOCOL.md has what a source and an agent of
// package work request, and nothing more.
func TestAccessOfWorkClients(t *testing.T) {
	log := &accessLog{rows: map[string]bool{}}
	server := newServer(t, grpc.ServerOptions{Authorizer: log})
	addr, _ := serve(t, server, "")
	transport := func() cloudevents.Transport {
		return newTransport(t, grpc.Options{Address: addr, Insecure: true})
	}
	for _, profile := range []codec.Profile{codec.ManifestWork, codec.ManifestBundle} {
		source, err := work.NewSource(transport(), work.SourceOptions{SourceID: "hub", Profile: profile, DrainTimeout: -1})
		if err != nil {
			t.Fatal(err)
		}
		agent, err := work.NewAgent(transport(),
			work.AgentOptions{ClusterName: "cluster1", Profile: profile, DrainTimeout: -1})
		if err != nil {
			t.Fatal(err)
		}
		start(t, source.Start)
		waitFor(t, "the inventory", func() bool { return source.InventoryComplete(t.Context()) == nil })
		start(t, agent.Start)
		reportWork(t, source, agent)
	}
	server.Cut() // sources and agents request what they missed
	rows := documentedAccess(t)
	for _, row := range rows {
		waitFor(t, row, func() bool { return log.has(row) })
	}
	for _, row := range log.all() {
		if !slices.Contains(rows, row) {
			t.Errorf("PROTOCOL.md has no row\n%s", row)
		}
	}
}

// reportWork creates a work, and waits until the source has a status of it.
func reportWork(t *testing.T, source *work.Source, agent *work.Agent) {
	t.Helper()
	works := source.Clientset().WorkV1().ManifestWorks("cluster1")
	applied := agent.Clientset().WorkV1().ManifestWorks("cluster1")
	if _, err := works.Create(t.Context(), worktest.New("app", "one"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the work at the agent", func() bool {
		w, err := applied.Get(t.Context(), "app", metav1.GetOptions{})
		if err != nil {
			return false
		}
		meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
			Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "Done", ObservedGeneration: w.Generation,
		})
		_, err = applied.UpdateStatus(t.Context(), w, metav1.UpdateOptions{})
		return err == nil
	})
	waitFor(t, "the status at the source", func() bool {
		w, err := works.Get(t.Context(), "app", metav1.GetOptions{})
		return err == nil && meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkApplied)
	})
}
