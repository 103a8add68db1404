// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/wait"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := wait.Sleep(t.Context(), clock.RealClock{}, time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("returns %v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := wait.Sleep(ctx, clock.RealClock{}, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("returns %v", err)
		}
	})
}

func TestBackoff(t *testing.T) {
	for _, test := range []struct {
		attempt     int
		least, most time.Duration
	}{
		{0, time.Second / 2, time.Second},
		{3, 4 * time.Second, 8 * time.Second},
		{6, 30 * time.Second, time.Minute},
		{31, 30 * time.Second, time.Minute},
		{1000, 30 * time.Second, time.Minute},
	} {
		for range 100 {
			if d := wait.Backoff(time.Second, time.Minute, test.attempt); d < test.least || d > test.most {
				t.Errorf("attempt %d waits %s", test.attempt, d)
			}
		}
	}
}

func TestSignal(t *testing.T) {
	s := wait.NewSignal()
	s.Set()
	s.Set()
	<-s
	select {
	case <-s:
		t.Error("is set again")
	default:
	}
}

func TestBroadcast(t *testing.T) {
	var b wait.Broadcast
	b.Wake()
	first, second := b.Next(), b.Next()
	b.Wake()
	<-first
	<-second
	select {
	case <-b.Next():
		t.Error("wakes who waits later")
	default:
	}
}
