// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"maps"
	"math/rand/v2"
	"testing"
)

// TestSmallMapIsLikeMap compares a smallMap with a map in random operations.
func TestSmallMapIsLikeMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		var f smallMap[int, int]
		m := map[int]int{}
		for range 20 {
			k, v := random.IntN(4), random.IntN(100)
			switch random.IntN(10) {
			case 0:
				f.clear()
				clear(m)
			case 1, 2, 3:
				f.delete(k)
				delete(m, k)
			default:
				f.set(k, v)
				m[k] = v
			}
			got, ok := f.get(k)
			want, there := m[k]
			if got != want || ok != there || f.len() != len(m) || !maps.Equal(maps.Collect(f.all()), m) {
				t.Fatalf("%+v is not %v", f, m)
			}
		}
		for k := range f.all() { // allowed, as with a map
			f.delete(k)
		}
		if f.len() != 0 {
			t.Fatalf("%d are left", f.len())
		}
	}
}
