// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpretertest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/interpretertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const replicas = `name: replicas
reason: as declared
operation: InterpretReplica
object: {apiVersion: example.com/v1, kind: Workload, metadata: {name: w}, spec: {replicas: 2}}
want: {replicas: 2}
`

// handler answers one operation correctly and one wrongly. A third one fails.
var handler = interpreter.HandlerFor[*unstructured.Unstructured]{
	Replica: func(_ context.Context, u *unstructured.Unstructured) (int32, *interpreter.ReplicaRequirements, error) {
		n, _, err := unstructured.NestedInt64(u.Object, "spec", "replicas")
		return int32(n), nil, err
	},
	Revise: func(_ context.Context, u *unstructured.Unstructured, replicas int32) error {
		return unstructured.SetNestedField(u.Object, int64(replicas)+1, "spec", "replicas")
	},
	Health: func(context.Context, *unstructured.Unstructured) (bool, error) { return false, errors.New("no idea") },
}

func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cases.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRunFile(t *testing.T) {
	interpretertest.RunFile(t, interpreter.FromHandler(handler),
		write(t, replicas+"---\n# nothing\n---\n"+strings.Replace(replicas, "name: replicas", "name: again", 1)))
}

// TestDifferenceIsReadable checks that a difference is readable.
func TestDifferenceIsReadable(t *testing.T) {
	cases, err := interpretertest.Load(write(t, `name: revise
operation: ReviseReplica
replicas: 2
object: {apiVersion: example.com/v1, kind: Workload, metadata: {name: w}, spec: {replicas: 1}}
want:
  object: {apiVersion: example.com/v1, kind: Workload, metadata: {name: w}, spec: {replicas: 2}}
---
`+strings.Replace(replicas, "want: {replicas: 2}", "want: {replicas: 3}", 1)+`---
name: health
operation: InterpretHealth
object: {apiVersion: example.com/v1, kind: Workload}
want: {healthy: true}
---
name: an error that does not come
operation: InterpretReplica
object: {apiVersion: example.com/v1, kind: Workload}
want: {error: no idea}
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"replicas: 2", "replicas (-want +got)", "there was no answer: refused (500): no idea",
		`there was an answer, want the error "no idea"`} {
		if got := interpretertest.Check(t.Context(), interpreter.FromHandler(handler), cases[i]); !strings.Contains(got,
			want) {
			t.Errorf("%s: %q does not tell %q", cases[i].Name, got, want)
		}
	}
}
