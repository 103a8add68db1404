// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2etest_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

func TestMemory(t *testing.T) {
	block := make([]byte, 64<<20)
	for i := 0; i < len(block); i += 1 << 10 {
		block[i] = 1
	}
	if got := e2etest.Memory(t, os.Getpid(), "VmRSS"); got < len(block) || got > len(block)<<6 {
		t.Errorf("%d bytes are resident, with a block of %d", got, len(block))
	}
	runtime.KeepAlive(block)
	it, done := &tb{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		e2etest.Memory(it, os.Getpid(), "VmOther")
	}()
	<-done
	if !strings.Contains(it.failed, "VmOther") {
		t.Errorf("an unknown field: %q", it.failed)
	}
}
