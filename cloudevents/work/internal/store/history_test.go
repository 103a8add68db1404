// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/store"
)

// TestObjectsAt: whatever was written since, the objects of a version in the log are what they were then.
func TestObjectsAt(t *testing.T) {
	run(t, false, func(s *script) {
		show := func(objects []*workv1.ManifestWork) []string {
			out := []string{}
			for _, obj := range objects {
				out = append(out, obj.Namespace+"/"+obj.Name+"@"+obj.ResourceVersion)
			}
			return out
		}
		random := rand.New(rand.NewPCG(1, 2))
		filters := []*store.Filter{{}, {Namespace: "a"}, {Namespace: "c"}}
		type past struct {
			version uint64
			objects [][]string
		}
		var pasts []past
		for range 3000 {
			namespace, name := string(rune('a'+random.IntN(2))), "w"+strconv.Itoa(random.IntN(5))
			if r := s.records[namespace+"/"+name]; r != nil && r.Object != nil && random.IntN(3) == 0 {
				s.remove(namespace, name)
			} else {
				s.put(namespace, name)
			}
			s.store.Lock()
			now := past{version: version(t, s.store.Version())}
			for _, f := range filters {
				now.objects = append(now.objects, show(s.store.Objects(f)))
			}
			s.store.Unlock()
			pasts = append(pasts, now)
		}
		s.store.Lock()
		defer s.store.Unlock()
		for i, then := range pasts {
			for j, f := range filters {
				got, err := s.store.ObjectsAt(f, then.version)
				if i < len(pasts)-1-1024 {
					if !apierrors.IsResourceExpired(err) {
						t.Fatalf("write %d is too old to be known: %v", i, err)
					}
				} else if diff := cmp.Diff(then.objects[j], show(got)); diff != "" || err != nil {
					t.Fatalf("write %d (-then +now): %v\n%s", i, err, diff)
				}
			}
		}
		_, err := s.store.ObjectsAt(&store.Filter{}, pasts[len(pasts)-1].version+1)
		if !apierrors.IsTimeout(err) {
			t.Errorf("a version from the future: %v", err)
		}
	})
}
