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
			if errors.As(err, &all); test.problems == 0 && err != nil || test.problems > 0 && len(all.Problems)+all.More != test.problems {
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
