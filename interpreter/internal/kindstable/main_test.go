// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

func TestPageIsUpToDate(t *testing.T) {
	got, err := os.ReadFile("../../KINDS.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != page(sections()) {
		t.Error("KINDS.md is not up to date: run make generate")
	}
}

// answers maps each kind to the operation that it supports.
type answers map[schema.GroupVersionKind]interpreter.Operation

func (a answers) Kinds() (all []schema.GroupVersionKind) {
	for gvk := range a {
		all = append(all, gvk)
	}
	return all
}

func (a answers) Supports(gvk schema.GroupVersionKind, o interpreter.Operation) bool {
	return a[gvk] == o
}

func TestPage(t *testing.T) {
	got := page([]section{{"Others", "Some text.", answers{
		{Group: "b.example.com", Version: "*", Kind: "Any"}: v1alpha1.InterpreterOperationInterpretComponent,
		{Group: "a.example.com", Version: "v1", Kind: "Z"}:  v1alpha1.InterpreterOperationPrune,
		{Group: "a.example.com", Version: "v1", Kind: "A"}:  v1alpha1.InterpreterOperationInterpretReplica,
	}}})
	const want = `
## Others

Some text.

| kind | apiVersion | replicas | components | revise | retain | aggregate | dependencies | status | health | prune |
|---|---|---|---|---|---|---|---|---|---|---|
| A | a.example.com/v1 | x | | | | | | | | |
| Z | a.example.com/v1 | | | | | | | | | x |
| Any | b.example.com/* | | x | | | | | | | |
`
	if !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant at its end\n%s", got, want)
	}
}
