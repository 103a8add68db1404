// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package boltstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
)

// must keeps the example short.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// A source that restarts has its works immediately. The user does not create them again.
func ExampleOpen() {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", "works"))
	defer func() { _ = os.RemoveAll(dir) }() // the folder is temporary, so an error does not matter
	path := filepath.Join(dir, "works.db")
	open := func() (*boltstore.Store, *work.Source) {
		store := must(boltstore.Open(path, boltstore.Options{}))
		// With mqtt.New instead of the memory bus, and source.Start, the works are published.
		return store, must(work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub", Store: store}))
	}

	store, source := open()
	created := must(source.Clientset().WorkV1().ManifestWorks("cluster1").Create(ctx, &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{
			RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"app"}}`)},
		}}}},
	}, metav1.CreateOptions{}))
	if err := store.Close(); err != nil { // the process stops, here in an orderly way
		panic(err)
	}

	store, source = open()
	defer store.Close()
	found := must(source.Clientset().WorkV1().ManifestWorks("cluster1").Get(ctx, "app", metav1.GetOptions{}))
	fmt.Println(found.Name, "is the same work:", found.UID == created.UID &&
		found.ResourceVersion == created.ResourceVersion)
	// Output: app is the same work: true
}
