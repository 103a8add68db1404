// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/codec"
)

// TestBundleConvergence is TestConvergence in the profile ManifestBundle, without wrong clocks.
func TestBundleConvergence(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// After the epoch of snowflake IDs.
				time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
				f := newFleet(t, seed, codec.ManifestBundle)
				for range 100 {
					f.step()
				}
				f.judge()
			})
		})
	}
}
