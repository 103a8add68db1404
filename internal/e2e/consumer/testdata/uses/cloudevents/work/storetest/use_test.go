// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package use_test has a store of its own checked.
package use_test

import (
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/storetest"
)

func TestUse(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Opener {
		s := work.NewMemoryStore()
		return func(*testing.T) (work.Store, func()) { return s, func() {} }
	})
}
