// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2etest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// tb is a testing.TB that records a failure.
type tb struct {
	testing.TB
	failed string
}

func (t *tb) Fatalf(format string, args ...any) {
	t.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (t *tb) Error(args ...any) { t.failed = fmt.Sprint(args...) }

// TestEventually: a condition that holds soon is noticed immediately, and a slow condition is not
// checked all the time.
func TestEventually(t *testing.T) {
	for _, tt := range []struct {
		after, late time.Duration
		questions   int
	}{
		{0, 0, 1},
		{20 * time.Millisecond, 10 * time.Millisecond, 4},
		{10 * time.Second, 200 * time.Millisecond, 70},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, asked := time.Now(), 0
			e2etest.Eventually(t, "it happens", func() error {
				asked++
				if time.Since(begun) < tt.after {
					return errors.New("not yet")
				}
				return nil
			})
			if took := time.Since(begun); took > tt.after+tt.late || asked > tt.questions {
				t.Errorf("%s was seen after %s, with %d questions", tt.after, took, asked)
			}
		})
	}
}

func TestEventuallyGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		it, begun, done := &tb{TB: t}, time.Now(), make(chan struct{})
		go func() {
			defer close(done)
			e2etest.Eventually(it, "it happens", func() error { return errors.New("not yet") })
		}()
		<-done
		if took := time.Since(begun); took != e2etest.Patience || !strings.Contains(it.failed, "it happens") ||
			!strings.Contains(it.failed, "not yet") {
			t.Errorf("after %s: %q", took, it.failed)
		}
	})
}

// TestBackground: stop waits for the end of the function, and its error fails the test.
func TestBackground(t *testing.T) {
	it, ended := &tb{TB: t}, false
	stop := e2etest.Background(it, func(ctx context.Context) error {
		<-ctx.Done()
		ended = true
		return errors.New("broken")
	})
	stop()
	stop()
	if !ended || it.failed != "broken" {
		t.Errorf("ended: %t, %q", ended, it.failed)
	}
}
