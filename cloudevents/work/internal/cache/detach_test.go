// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/randfill"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
)

// TestDeliveredObjectsAreOwned: the receiver of a watch owns the delivered objects. Two receivers
// do not share them with each other or with the cache.
func TestDeliveredObjectsAreOwned(t *testing.T) {
	run(t, false, func(s *script) {
		obj := &workv1.ManifestWork{}
		for seed := range int64(20) {
			filler := randfill.New().RandSource(rand.NewSource(seed)).NilChance(0).NumElements(1, 3).Funcs(
				func(raw *runtime.RawExtension, _ randfill.Continue) { raw.Raw = []byte(`{"a":1}`) },
			)
			filler.Fill(obj)
			obj.Namespace, obj.Name = "a", fmt.Sprint("w", seed)
			r := &record{}
			s.cache.Lock()
			s.cache.Put(r, obj.DeepCopy())
			s.cache.Unlock()
			before := r.Object.DeepCopy()
			first, second := s.watch(cache.WatchOptions{}), s.watch(cache.WatchOptions{})
			scribble(t, first)
			scribble(t, second)
			if diff := cmp.Diff(before, r.Object); diff != "" {
				t.Fatalf("the cache's object was changed through a watch:\n%s", diff)
			}
			s.cache.Lock()
			s.cache.Remove(r, nil)
			s.cache.Unlock()
			first.Stop()
			second.Stop()
		}
	})
}

// scribble overwrites all fields that can be reached from the delivered object of a watch, except
// bytes.
func scribble(t *testing.T, w *cache.Watcher) {
	t.Helper()
	e := <-w.ResultChan()
	obj, ok := e.Object.(*workv1.ManifestWork)
	if !ok || obj.Labels == nil {
		t.Fatalf("the watch delivered %v", e)
	}
	overwrite(reflect.ValueOf(obj).Elem())
}

func overwrite(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			overwrite(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				overwrite(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			overwrite(v.Index(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			v.SetMapIndex(k, reflect.Zero(v.Type().Elem()))
		}
	default:
		if v.CanSet() {
			v.SetZero()
		}
	}
}
