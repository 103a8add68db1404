// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// TestSameSourceID: a source that deletes unknown works logs this, at most one line a minute for
// each cluster. The works may belong to another source with the same ID.
func TestSameSourceID(t *testing.T) {
	inScene(t, func(s *scene) {
		first := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{})
		s.settle()
		for _, name := range []string{"one", "two", "three"} {
			first.create("cluster1", newWork(name, "1"))
		}
		s.settle()
		for _, name := range a.names() {
			a.setFinalizers(name, "work.open-cluster-management.io/cleanup")
		}
		second, err := work.NewSource(s.bus.Transport(), work.SourceOptions{SourceID: "hub"})
		if err != nil {
			t.Fatal(err)
		}
		_, logs := s.runLogged(second)
		if err := second.InventoryComplete(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settle()
		first.kill()
		s.settleProcesses()
		const want = "Requested the deletion of an unknown work"
		if text := logs(); strings.Count(text, want) != 1 || !strings.Contains(text, "another source has the same ID") {
			t.Errorf("logged:\n%s", text)
		}
	})
}
