// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpretertest_test

import (
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/interpretertest"
)

// TestLoadRejectsIncompleteCases checks that a case that would test nothing is rejected.
func TestLoadRejectsIncompleteCases(t *testing.T) {
	for _, test := range []struct{ content, want string }{
		{replicas + "wants: {}\n", `case 1: json: unknown field "wants"`},
		{strings.Replace(replicas, "InterpretReplica", "Guess", 1),
			"case 1 (replicas): name, operation and object are required"},
		{replicas + "---\n{", "case 2: "},
	} {
		if _, err := interpretertest.Load(write(t, test.content)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
	}
}

// TestNumbersAreExact checks that a number in a case is read exactly.
func TestNumbersAreExact(t *testing.T) {
	cases, err := interpretertest.Load(write(t, `name: large
operation: ReviseReplica
replicas: 1
object: {apiVersion: example.com/v1, kind: Workload, metadata: {name: w}, spec: {replicas: 1, large: 9007199254740993, part: 0.1}}
want:
  object: {apiVersion: example.com/v1, kind: Workload, metadata: {name: w}, spec: {replicas: 2, large: 9007199254740992, part: 0.1}}
`))
	if err != nil {
		t.Fatal(err)
	}
	got := interpretertest.Check(t.Context(), interpreter.FromHandler(handler), cases[0])
	if !strings.Contains(got, "large: 9007199254740992") || !strings.Contains(got, "large: 9007199254740993") {
		t.Errorf("another number is taken for the one that is wanted: %q", got)
	}
}
