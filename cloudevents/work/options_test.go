// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// TestInvalidOptions: the error names the invalid option.
func TestInvalidOptions(t *testing.T) {
	source := func(o work.SourceOptions) error {
		_, err := work.NewSource(memory.New().Transport(), o)
		return err
	}
	agent := func(o work.AgentOptions) error {
		_, err := work.NewAgent(memory.New().Transport(), o)
		return err
	}
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"no source ID", source(work.SourceOptions{}), "SourceOptions.SourceID"},
		{"source ID of two levels", source(work.SourceOptions{SourceID: "a/b"}), "SourceOptions.SourceID"},
		{"negative rate", source(work.SourceOptions{SourceID: "a", QPS: -1}),
			"invalid SourceOptions.QPS: -1: must not be negative"},
		{"negative TTL", source(work.SourceOptions{SourceID: "a", TombstoneTTL: -1}),
			"invalid SourceOptions.TombstoneTTL: -1ns: must not be negative"},
		{"negative bound", source(work.SourceOptions{SourceID: "a", MaxBytes: -1}),
			"invalid SourceOptions.MaxBytes: -1: must not be negative"},
		{"outbox", source(work.SourceOptions{SourceID: "a", Outbox: -7}),
			"invalid SourceOptions.Outbox: -7: must be Disabled"},
		{"no cluster", agent(work.AgentOptions{}), "AgentOptions.ClusterName"},
		{"cluster with a wildcard", agent(work.AgentOptions{ClusterName: "+"}), "AgentOptions.ClusterName"},
		{"no source at all", agent(work.AgentOptions{ClusterName: "a", Sources: []string{}}),
			"invalid AgentOptions.Sources: []: must name a source"},
		{"source of an agent", agent(work.AgentOptions{ClusterName: "a", Sources: []string{"x", "#"}}),
			"AgentOptions.Sources[1]"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if tc.err == nil || !strings.Contains(tc.err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", tc.err, tc.want)
			}
		})
	}
	if _, err := work.NewSource(nil, work.SourceOptions{SourceID: "a"}); err == nil {
		t.Error("no error without a transport")
	}
	transport := memory.New().Transport()
	if _, err := work.NewSource(transport, work.SourceOptions{SourceID: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := work.NewAgent(transport, work.AgentOptions{ClusterName: "c"}); !errors.Is(err, cloudevents.ErrClaimed) {
		t.Errorf("a transport in use: %v", err)
	}
}
