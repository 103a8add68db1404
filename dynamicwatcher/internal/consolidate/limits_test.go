// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package consolidate

import "testing"

func TestLimitsOfSharedWatch(t *testing.T) {
	l := Limits{MinObjects: 32, MaxRatio: 50}
	for _, test := range []struct {
		watched             int
		size                int64
		enough, fits, keeps bool
	}{
		{32, 1600, true, true, true},
		{31, 1551, false, false, true},
		{16, 1600, false, false, true},
		{15, 15, false, true, false},
		{32, 3201, true, false, false},
		{32, -1, true, true, true},
	} {
		enough, fits, keeps := l.Enough(test.watched), l.Fits(test.watched, test.size), l.Keeps(test.watched, test.size)
		if enough != test.enough || fits != test.fits || keeps != test.keeps {
			t.Errorf("%d of %d objects: %t, %t, %t", test.watched, test.size, enough, fits, keeps)
		}
	}
}
