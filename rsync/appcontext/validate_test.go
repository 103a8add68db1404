// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// TestValidateIsBounded: a context with many problems takes little time and memory.
func TestValidateIsBounded(t *testing.T) {
	const many = 50_000
	long := strings.Repeat("x", 1<<20)
	chain := make([]appcontext.App, many)
	for i := range chain {
		chain[i].Name = fmt.Sprint("app-", i)
		if i > 0 {
			chain[i].DependsOn = []appcontext.Dependency{{App: chain[i-1].Name, Status: appcontext.OpStatusReady}}
		}
	}
	clusters := func(provider string, resources int) []appcontext.App {
		return []appcontext.App{{Name: "a", Clusters: []appcontext.Cluster{{
			ClusterID: appcontext.ClusterID{Provider: provider, Name: "c"}, Resources: make([]appcontext.Resource, resources),
		}}}}
	}
	for name, test := range map[string]struct {
		apps     []appcontext.App
		problems int
	}{
		"resources":                  {clusters("edge", many), 2*many - 1},
		"a long name, many times":    {clusters(long, 1000), 2 * 1000},
		"a long app, many times":     {slices.Repeat([]appcontext.App{{Name: long}}, 1000), 2*1000 - 1},
		"apps that depend on others": {chain, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			err := appcontext.Validate(&appcontext.AppContext{ID: "a", Apps: test.apps})
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			var all *appcontext.Error
			if errors.As(err, &all); test.problems == 0 && err != nil || test.problems > 0 &&
				len(all.Problems)+all.More != test.problems {
				t.Errorf("%d problems, want %d: %.300v", len(all.Problems)+all.More, test.problems, err)
			}
			if n := len(fmt.Sprint(err)); n > 100<<10 {
				t.Errorf("the error has %d bytes", n)
			}
			if took > 20*time.Second {
				t.Errorf("took %v", took)
			}
			if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 256 {
				t.Errorf("%d MiB allocated", n)
			}
		})
	}
}

// TestInvalidContext: Build reports each problem with its place, and all other problems.
func TestInvalidContext(t *testing.T) {
	x := manifest("ConfigMap", "x")
	for name, test := range map[string]struct {
		reason string
		fault  appcontext.Fault
		id     string
		build  func(*appcontext.Builder)
	}{
		"no ID": {fault: appcontext.FaultBadName, id: "-", build: func(b *appcontext.Builder) { b.App("") }},
		"slash": {fault: appcontext.FaultBadName, build: func(b *appcontext.Builder) { b.App("a/b") }},
		"plus": {fault: appcontext.FaultBadName,
			build: func(b *appcontext.Builder) { b.App("a").Cluster("p+q", "c") }},
		"instruction": {fault: appcontext.FaultBadName, build: func(b *appcontext.Builder) { b.App("instruction") }},
		"long": {fault: appcontext.FaultBadName,
			build: func(b *appcontext.Builder) { b.App(strings.Repeat("a", 254)) }},
		"unknown app": {fault: appcontext.FaultUnknownApp,
			build: func(b *appcontext.Builder) { b.App("a").DependsOn("b", appcontext.OpStatusReady, 0) }},
		"self": {fault: appcontext.FaultCycle,
			build: func(b *appcontext.Builder) { b.App("a").DependsOn("a", appcontext.OpStatusReady, 0) }},
		"no status": {fault: appcontext.FaultBadDependency,
			build: func(b *appcontext.Builder) { b.App("b"); b.App("a").DependsOn("b", "Done", 0) }},
		"negative wait": {fault: appcontext.FaultBadDependency,
			build: func(b *appcontext.Builder) { b.App("b"); b.App("a").DependsOn("b", appcontext.OpStatusReady, -1) }},
		"cycle": {fault: appcontext.FaultCycle, build: func(b *appcontext.Builder) {
			b.App("a").DependsOn("b", appcontext.OpStatusReady, 0)
			b.App("b").DependsOn("c", appcontext.OpStatusReady, 0)
			b.App("c").DependsOn("a", appcontext.OpStatusReady, 0)
		}},
		"object twice in an app": {fault: appcontext.FaultDuplicate,
			build: func(b *appcontext.Builder) { b.App("a").Resource("p", "c", x).Resource("p", "c", x) }},
		"object twice in two apps": {fault: appcontext.FaultDuplicate,
			build: func(b *appcontext.Builder) { b.App("a").Resource("p", "c", x); b.App("b").Resource("p", "c", x) }},
		"hook": {fault: appcontext.FaultBadHook,
			build: func(b *appcontext.Builder) { b.App("a").Hook("post-mortem", "p", "c", x) }},
		"no kind": {fault: appcontext.FaultBadManifest, build: func(b *appcontext.Builder) {
			b.App("a").Resource("p", "c", []byte("apiVersion: v1\nmetadata: {name: x}"))
		}},
		"no name": {fault: appcontext.FaultBadManifest,
			build: func(b *appcontext.Builder) { b.App("a").Resource("p", "c", []byte("apiVersion: v1\nkind: X")) }},
		"no apiVersion": {fault: appcontext.FaultBadManifest,
			build: func(b *appcontext.Builder) { b.App("a").Resource("p", "c", []byte("kind: X\nmetadata: {name: x}")) }},
		"a name that is a boolean": {fault: appcontext.FaultBadManifest, build: func(b *appcontext.Builder) {
			b.App("a").Resource("p", "c", []byte("apiVersion: v1\nkind: X\nmetadata: {name: y}"))
		}},
		"no object": {fault: appcontext.FaultBadManifest,
			build: func(b *appcontext.Builder) { b.App("a").Resource("p", "c", []byte("password")) }},
		"two documents": {fault: appcontext.FaultBadManifest,
			build: func(b *appcontext.Builder) { b.App("a").Resource("p", "c", []byte(string(x)+"---\n"+string(x))) }},
		"manifests that are too large together": {fault: appcontext.FaultTooLarge, build: func(b *appcontext.Builder) {
			for i := range 17 {
				b.App("a").Resource("p", "c", fmt.Appendf(nil, "apiVersion: v1\nkind: X\nmetadata: {name: n%d}\n#%s", i,
					strings.Repeat("#", appcontext.MaxAppCluster/16)))
			}
		}},
		"everything at once": {fault: appcontext.FaultBadHook, id: "a b",
			build: func(b *appcontext.Builder) { b.App("a/b").Hook("x", "", "", nil).Hook("x", "p", "c", x) }},
	} {
		t.Run(name, func(t *testing.T) {
			id := "id"
			if test.id != "" {
				id = strings.Trim(test.id, "-")
			}
			b := appcontext.NewBuilder(id)
			test.build(b)
			_, err := b.Build()
			if !appcontext.Has(err, test.fault) || !errors.Is(err, appcontext.ErrInvalid) {
				t.Errorf("got %v, want %s", err, test.fault)
			}
			if err != nil && strings.Contains(err.Error(), "password") {
				t.Errorf("the error quotes the manifest: %v", err)
			}
		})
	}
	mismatch := &appcontext.AppContext{ID: "a", Apps: []appcontext.App{{Name: "a", Clusters: []appcontext.Cluster{{
		ClusterID: appcontext.ClusterID{Provider: "p", Name: "c"},
		Resources: []appcontext.Resource{{Object: appcontext.Object{Kind: "X", Name: "y"}, Manifest: x}},
	}}}}}
	if err := appcontext.Validate(mismatch); !appcontext.Has(err, appcontext.FaultIdentityMismatch) {
		t.Errorf("a manifest of another object: %v", err)
	}
}
