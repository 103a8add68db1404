// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package git_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/spokewire/sdk-go/internal/testing/gitserver"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/git"
)

// fill returns a repository of n manifests: 100 for each cluster, ten in each of ten namespaces.
func fill(b *testing.B, n int) served {
	b.Helper()
	s := ways["file"](b,
		gitserver.Options{Config: map[string]string{"fastimport.unpackLimit": "0", "uploadpack.allowFilter": "true",
			"gc.auto": "0", "receive.autogc": "false"}})
	files := map[string]string{}
	for i := range n {
		o := configMap(fmt.Sprint("object-", i))
		o.Namespace = fmt.Sprint("namespace-", i/10%10)
		files[s.at.File(appcontext.ClusterID{Provider: "edge", Name: fmt.Sprint("c", i/100)}, o)] = string(
			manifest(o.Name, fmt.Sprint(i)))
	}
	s.server.Commit("many", files)
	return s
}

func ten(round int) connector.Batch {
	text := ""
	for i := range 10 {
		text += fmt.Sprintf("object-%d=%d ", i, round)
	}
	return batch(text)
}

// BenchmarkApply commits and pushes ten objects into repositories of different sizes, with git's
// own receive-pack.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000, 100_000} {
		b.Run(fmt.Sprint("files=", n), func(b *testing.B) {
			s := fill(b, n)
			c := open(b, s.at, git.Options{})
			if err := c.Apply(b.Context(), ten(-1)); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			round, before := 0, processorTime()
			for b.Loop() {
				if err := c.Apply(b.Context(), ten(round)); err != nil {
					b.Fatal(err)
				}
				round++
			}
			b.ReportMetric(float64(processorTime()-before)/float64(time.Millisecond)/float64(round), "cpu-ms/op")
		})
	}
}

// BenchmarkUnchanged applies objects that the repository already has, and gets their states.
func BenchmarkUnchanged(b *testing.B) {
	s := fill(b, 10_000)
	c := open(b, s.at, git.Options{})
	if err := c.Apply(b.Context(), ten(0)); err != nil {
		b.Fatal(err)
	}
	b.Run("Apply", func(b *testing.B) {
		for b.Loop() {
			if err := c.Apply(b.Context(), ten(0)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Get", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Get(b.Context(), ten(0)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkFetch measures the first read of a repository.
func BenchmarkFetch(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint("files=", n), func(b *testing.B) {
			s := fill(b, n)
			connectors := newConnectors(b, s.at, git.Options{})
			b.ReportAllocs()
			for b.Loop() {
				c, err := connectors.Connector(b.Context(), "edge", "c1")
				if err == nil {
					_, err = c.Get(b.Context(), ten(0))
				}
				if err = errors.Join(err, c.Close()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWorktree does the same as BenchmarkApply, with a clone and a worktree of go-git, for
// comparison.
func BenchmarkWorktree(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint("files=", n), func(b *testing.B) {
			s := fill(b, n)
			folder := b.TempDir()
			clone, err := gogit.PlainClone(folder, false,
				&gogit.CloneOptions{URL: s.server.Path(), ReferenceName: "refs/heads/main", SingleBranch: true, Depth: 1})
			if err != nil {
				b.Fatal(err)
			}
			tree, err := clone.Worktree()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			round, before := 0, processorTime()
			for b.Loop() {
				for _, r := range ten(round).Resources {
					name := s.at.File(edge1, r.Object)
					put(b, filepath.Join(folder, name), r.Manifest)
					if err := tree.AddWithOptions(&gogit.AddOptions{Path: name, SkipStatus: true}); err != nil {
						b.Fatal(err)
					}
				}
				who := &object.Signature{Name: "x", Email: "x"}
				if _, err := tree.Commit("x", &gogit.CommitOptions{Author: who}); err != nil {
					b.Fatal(err)
				}
				if err := clone.Push(&gogit.PushOptions{}); err != nil {
					b.Fatal(err)
				}
				round++
			}
			b.ReportMetric(float64(processorTime()-before)/float64(time.Millisecond)/float64(round), "cpu-ms/op")
		})
	}
}

// processorTime returns the processor time of this process, without git's programs.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func put(b *testing.B, file string, content []byte) {
	b.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o644)); err != nil {
		b.Fatal(err)
	}
}
