// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLists checks that the objects of a List are explained, as kubectl get -o yaml prints them.
func TestLists(t *testing.T) {
	file := filepath.Join(t.TempDir(), "objects.yaml")
	const content = `# nothing
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: a, namespace: prod}, status: {large: 9007199254740993}}
- {apiVersion: v1, kind: Secret, metadata: {name: b, namespace: prod}, data: {password: aHVudGVyMg==}}
`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := try(t.Context(), []string{"explain", file}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Service prod/a\n", `{"large":9007199254740993}`, "Secret prod/b\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &out)
		}
	}
	if err := os.WriteFile(file, []byte("data: aHVudGVyMg==\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := try(t.Context(), []string{"explain", file}, &out); err == nil ||
		err.Error() != file+", document 1: the document has no kind or no apiVersion" {
		t.Errorf("got %v", err)
	}
}
