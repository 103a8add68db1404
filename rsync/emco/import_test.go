// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package emco_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/emco"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// offline returns a scene without running parts.
func offline(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, keys: memstore.New(memstore.Options{}), clusters: fake.New()}
	var err error
	if s.engine, err = rsync.New(memstore.New(memstore.Options{}), s.clusters, rsync.Options{}); err != nil {
		t.Fatal(err)
	}
	if s.bridge, err = emco.New(s.engine, s.keys); err != nil {
		t.Fatal(err)
	}
	return s
}

const shopText = "web@c1 a=1 b=1; web@c2 a=1; db@c1 d=1"

// TestImport: the imported apps, clusters and manifests equal those of the orchestrator.
func TestImport(t *testing.T) {
	s := offline(t)
	s.put(orchestrator("7", shopText)...)
	c, err := s.bridge.Import(t.Context(), "7")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range c.Apps {
		for _, cluster := range a.Clusters {
			for _, r := range cluster.Resources {
				got = append(got, a.Name+" "+cluster.String()+" "+r.Name)
				if string(r.Manifest) != manifest(r.Name, "1") {
					t.Errorf("%s has %q", r.Object, r.Manifest)
				}
			}
		}
	}
	if want := "web edge+c1 a, web edge+c1 b, web edge+c2 a, db edge+c1 d"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	if c.ID != "7" || c.Meta.CompositeApp != "shop" {
		t.Errorf("%+v", c)
	}
	if err := s.engine.Create(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// TestImportHalfWritten: if one of the keys that rsync reads is missing, the context is not
// imported. The error has a key.
func TestImportHalfWritten(t *testing.T) {
	all := orchestrator("7", shopText)
	for n := range all {
		s := offline(t)
		s.put(all[:n]...)
		c, err := s.bridge.Import(t.Context(), "7")
		if complete := n >= len(all)-1; complete {
			if err != nil {
				t.Errorf("with %d writes: %v", n, err)
			}
			continue
		}
		if n == 0 {
			if !errors.Is(err, rsync.ErrNotFound) {
				t.Errorf("nothing is there: %v", err)
			}
			continue
		}
		var p *appcontext.Problem
		if !errors.As(err, &p) || !strings.HasPrefix(p.Where, "/context/7/") {
			t.Errorf("with %d writes, the last %s: %v, %v", n, all[n-1].key, c, err)
		}
	}
	// The orchestrator of other releases writes the order of apps first. Import then cannot detect
	// a cluster with no keys yet, but each imported cluster is complete.
	first := append(slices.Clone(all[len(all)-2:]), all[:len(all)-2]...)
	for n := range first {
		s := offline(t)
		s.put(first[:n]...)
		c, err := s.bridge.Import(t.Context(), "7")
		var p *appcontext.Problem
		if err != nil && !errors.As(err, &p) && !errors.Is(err, rsync.ErrNotFound) {
			t.Errorf("with %d writes: %v", n, err)
		}
		if err == nil && (len(c.Apps) != 2 ||
			len(c.App("web").Cluster(appcontext.ClusterID{Provider: "edge", Name: "c1"}).Resources) != 2) {
			t.Errorf("with %d writes: %+v", n, c)
		}
	}
	for i, w := range all {
		optional := strings.HasSuffix(w.key, "/meta/") || strings.Contains(w.key, "metaGrp") ||
			strings.HasSuffix(w.key, "app/instruction/dependency/")
		s := offline(t)
		s.put(slices.Delete(slices.Clone(all), i, i+1)...)
		if _, err := s.bridge.Import(t.Context(), "7"); (err == nil) != optional {
			t.Errorf("without %s: %v", w.key, err)
		}
	}
}

// TestImportInvalidKeys: the error names the key and the problem.
func TestImportInvalidKeys(t *testing.T) {
	web := "/context/7/app/web/cluster/edge+c1/"
	for _, bad := range []struct{ key, value, want string }{
		{"/context/7/app/instruction/order/", `{"apporder":[]}`, "not valid JSON"},
		{"/context/7/app/instruction/order/", `"[]"`, "not valid JSON"},
		{"/context/7/meta/", `"x"`, "not valid JSON"},
		{web + "resource/a+ConfigMap/", `{}`, "not valid JSON"},
		{web + "resource/a+ConfigMap/subresource/approval/", `"x"`, "approve the request"},
		{web + "resource/a+ConfigMap/color/", `"x"`, "level is not known"},
		{web + "resource/c+ConfigMap/", `"x"`, `does not name "c+ConfigMap"`},
		{web + "color/", `"x"`, "level is not known"},
		{"/context/7/color/", `"x"`, "level is not known"},
		{"/context/7/app/other/", `"other"`, "no clusters"},
		{"/context/7/app/web/color/x/", `"x"`, "level is not known"},
		{web + "readystatus/", `x`, "not JSON"},
		{"/context/7/app/web/cluster/c9/", `"c9"`, "instruction/order/"},
	} {
		s := offline(t)
		s.put(orchestrator("7", shopText)...)
		s.put(write{bad.key, bad.value})
		_, err := s.bridge.Import(t.Context(), "7")
		var p *appcontext.Problem
		if !errors.As(err, &p) || !strings.HasPrefix(p.Where, bad.key) || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s %s: %v", bad.key, bad.value, err)
		}
	}
	for id, want := range map[string]error{"": rsync.ErrInvalidInput, "a/b": rsync.ErrInvalidInput,
		"8": rsync.ErrNotFound} {
		if _, err := offline(t).bridge.Import(t.Context(), id); !errors.Is(err, want) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestNew: both arguments are required.
func TestNew(t *testing.T) {
	if _, err := emco.New(nil, memstore.New(memstore.Options{})); !errors.Is(err, rsync.ErrInvalidInput) {
		t.Error(err)
	}
	if _, err := emco.New(offline(t).engine, nil); !errors.Is(err, rsync.ErrInvalidInput) {
		t.Error(err)
	}
}
