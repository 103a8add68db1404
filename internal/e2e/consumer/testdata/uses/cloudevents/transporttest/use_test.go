// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package use_test has a transport checked.
package use_test

import (
	"testing"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/transporttest"
)

// harness is a broker with nothing but what each has: the suite checks less, then.
type harness struct{ bus *memory.Bus }

func (h harness) Transport(*testing.T) cloudevents.Transport { return h.bus.Transport() }

func TestUse(t *testing.T) {
	transporttest.Run(t, harness{memory.New()})
}
