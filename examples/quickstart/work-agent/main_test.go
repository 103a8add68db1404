// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/agent"
)

func TestCommandLine(t *testing.T) {
	commandtest.Usage(t, usage, "broker", "source", "cluster", "kubeconfig", "verbose")
	commandtest.Refuses(t, parse, map[string]string{
		"--broker mqtt://b --source s":                     "--broker, --source and --cluster are required",
		"--broker mqtt://b --source s --cluster c another": `unknown argument "another"`,
	})
}

func TestRefuses(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("KUBECONFIG", missing)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for args, want := range map[string]string{"": "there is no kubeconfig", "--kubeconfig " + missing: missing} {
		var stdout, stderr bytes.Buffer
		line := append(strings.Fields(args), "--broker", "mqtt://b", "--source", "s", "--cluster", "c")
		if status := run(t.Context(), line, &stdout, &stderr); status != 1 || !strings.HasPrefix(stderr.String(), "work-agent: ") || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: exit status %d, %s", args, status, stderr.String())
		}
	}
}

func TestLine(t *testing.T) {
	for _, tt := range []struct {
		event agent.Event
		want  string
	}{
		{agent.Event{Work: "w", Generation: 2}, "applied   w generation 2"},
		{agent.Event{Work: "w", Generation: 2, Err: errors.New("refused")}, "not yet   w generation 2: refused"},
		{agent.Event{Work: "w", Generation: 2, Deleted: true}, "removed   w"},
	} {
		if got := line(tt.event); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
