// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/background"
)

// TestEqualManifestsShareMemory: one application on each of 1,000 clusters needs the memory of one
// manifest, after creations, after updates and after a restart. Deleted manifests are freed.
func TestEqualManifestsShareMemory(t *testing.T) {
	const clusters, size = 1000, 32 << 10
	store := work.NewMemoryStore()
	open := func() *work.Source {
		source, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub", Store: store})
		if err != nil {
			t.Fatal(err)
		}
		return source
	}
	source := open()
	background.Run(t, source.Start)
	stored := func() (bytes int64) {
		_ = store.Load(t.Context(), func(_ string, value []byte) error { bytes += int64(cap(value)); return nil })
		return bytes
	}
	before, _ := liveMemory()
	grown := func() int64 {
		after, _ := liveMemory()
		return after - before - stored()
	}
	write := func(value string) {
		for i := range clusters {
			works := source.Clientset().WorkV1().ManifestWorks(fmt.Sprint("cluster", i))
			obj := newWork("app", strings.Repeat(value, size))
			_, err := works.Create(t.Context(), obj, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				var patch []byte
				if patch, err = json.Marshal(map[string]any{"spec": obj.Spec}); err == nil {
					_, err = works.Patch(t.Context(), obj.Name, types.MergePatchType, patch, metav1.PatchOptions{})
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(when string, limit int64) {
		t.Helper()
		if used := grown(); used > limit {
			t.Errorf("%s: %d MiB of memory in addition to the store, want at most %d", when, used>>20, limit>>20)
		}
	}
	write("a")
	check("after creations", clusters*size/4)
	write("b")
	check("after updates", clusters*size/4)
	again := open()
	check("with another source of the same store", clusters*size/4)
	runtime.KeepAlive(again)
}
