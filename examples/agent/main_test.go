// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

func TestNeedsCluster(t *testing.T) {
	commandtest.NeedsCluster(t, "agent", "install the CRD of AppliedWork", func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		return run(ctx, append([]string{"--cluster", "c", "--broker", "mqtt://127.0.0.1:1"}, args...), stdout, stderr)
	})
}

func TestLine(t *testing.T) {
	for _, tt := range []struct {
		event controller.Event
		want  string
	}{
		{controller.Event{Work: "w", Generation: 2, Changed: true}, "applied   w generation 2"},
		{controller.Event{Work: "w", Generation: 2}, ""},
		{controller.Event{Work: "w", Generation: 2, Err: errors.New("refused")}, "not yet   w generation 2: refused"},
		{controller.Event{Work: "w", Generation: 2, Deleted: true, Changed: true}, "removed   w"},
	} {
		var out strings.Builder
		printTo(&out)(tt.event)
		if got := strings.TrimSuffix(out.String(), "\n"); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// TestTogether: when one part ends, so do the others, and all that went wrong is said.
func TestTogether(t *testing.T) {
	failed := errors.New("failed")
	waits := func(ctx context.Context) error { <-ctx.Done(); return nil }
	if err := together(t.Context(), waits, func(context.Context) error { return failed }, waits); !errors.Is(err, failed) {
		t.Error(err)
	}
}
