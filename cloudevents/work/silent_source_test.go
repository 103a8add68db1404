// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// TestSilentSourceIsLogged: an agent logs once that no source of an ID answers, and that it answers
// later.
func TestSilentSourceIsLogged(t *testing.T) {
	inScene(t, func(s *scene) {
		agent, err := work.NewAgent(s.bus.Transport(), work.AgentOptions{ClusterName: "cluster1", Sources: []string{"hubb"}})
		if err != nil {
			t.Fatal(err)
		}
		_, logs := s.runLogged(agent)
		s.source(work.SourceOptions{})
		time.Sleep(10 * time.Minute)
		const (
			silent = "Delayed lists: no source of this ID answers"
			back   = `Received delayed lists cluster="cluster1" source="hubb"`
		)
		if text := logs(); strings.Count(text, silent) != 1 || strings.Contains(text, back) {
			t.Errorf("the agent logged:\n%s", text)
		}
		h := s.source(work.SourceOptions{SourceID: "hubb"})
		h.complete()
		time.Sleep(10 * time.Minute)
		if text := logs(); strings.Count(text, silent) != 1 || strings.Count(text, back) != 1 {
			t.Errorf("the agent logged:\n%s", text)
		}
	})
}
