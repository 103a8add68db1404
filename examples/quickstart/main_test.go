// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output collects the written text. It calls a function at the first line with mark.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	mark string
	then func()
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.then != nil && bytes.Contains(p, []byte(o.mark)) {
		o.then()
		o.then = nil
	}
	return o.text.Write(p)
}

// expect checks that the patterns match the text, each after the previous match.
func expect(t *testing.T, text string, patterns ...string) {
	t.Helper()
	rest := text
	for _, p := range patterns {
		at := regexp.MustCompile("(?m)" + p).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("no %q where it should be in:\n%s", p, text)
		}
		rest = rest[at[1]:]
	}
}

func TestQuickstart(t *testing.T) {
	for reason, args := range map[string][]string{
		"in memory": nil,
		"over gRPC": {"--grpc"},
	} {
		t.Run(reason, func(t *testing.T) {
			var stdout, stderr output
			if status := run(t.Context(), args, &stdout, &stderr); status != 0 || stderr.text.Len() > 0 {
				t.Fatalf("exit status %d\n%s\n%s", status, stdout.text.String(), stderr.text.String())
			}
			for _, cluster := range clusters {
				expect(t, stdout.text.String(),
					`^hub: send work greeting to `+cluster+`, with text "hello"$`,
					`^`+cluster+`: apply ConfigMap greeting: map\[text:hello\]$`,
					`^hub: `+cluster+` reports that work greeting is applied$`,
					`^hub: send work greeting to `+cluster+`, with text "good evening"$`,
					`^`+cluster+`: apply ConfigMap greeting: map\[text:good evening\]$`,
					`^hub: `+cluster+` reports that work greeting is applied$`,
					`^hub: delete work greeting on `+cluster+`$`,
					`^`+cluster+`: delete ConfigMap greeting$`,
					`^hub: `+cluster+` reports that work greeting is deleted$`,
					`^Done: all works and their objects are deleted\.$`,
				)
			}
		})
	}
}

func TestWrongCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"manifests":   `unknown argument "manifests"`,
		"--grpc=soon": `--grpc: "soon": must be true or false`,
	} {
		var stdout, stderr output
		if status := run(t.Context(), strings.Fields(args), &stdout, &stderr); status != 2 || stdout.text.Len() > 0 {
			t.Errorf("%s: exit status %d\n%s", args, status, stdout.text.String())
		}
		expect(t, stderr.text.String(), "^quickstart: "+want, "--help")
	}
}

func TestInterrupt(t *testing.T) {
	for _, mark := range []string{"hello", "good evening", "delete"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		var stderr output
		stdout := output{mark: mark, then: func() { cancel(errors.New("interrupt signal received")) }}
		if status := run(ctx, nil, &stdout, &stderr); status != 1 {
			t.Errorf("%s: exit status %d, want 1", mark, status)
		}
		expect(t, stderr.text.String(), "^quickstart: .*")
		if strings.Contains(stdout.text.String(), "Done") {
			t.Errorf("%s: done after an interrupt:\n%s", mark, stdout.text.String())
		}
	}
}

// full is a writer that returns an error.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestOutputCannotBeWritten(t *testing.T) {
	for _, args := range [][]string{{"--help"}, nil} {
		var stderr output
		if status := run(t.Context(), args, full{}, &stderr); status != 1 {
			t.Errorf("%v: exit status %d, want 1", args, status)
		}
		expect(t, stderr.text.String(), "^quickstart: .*no space left on device$")
	}
}
