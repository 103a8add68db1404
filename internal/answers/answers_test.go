// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package answers_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/answers"
)

const life = 10 * time.Second

// counter answers each question with the number of calls so far.
type counter struct {
	delay time.Duration
	calls int
}

func (c *counter) ask(ctx context.Context) (int, error) {
	c.calls++
	n := c.calls
	select {
	case <-time.After(c.delay):
		return n, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func newCache(most int) *answers.Cache[string, int] {
	return answers.New(clock.RealClock{}, life, most, func(q string, _ int) int { return len(q) })
}

func want(t *testing.T, c *answers.Cache[string, int], q string, ask func(context.Context) (int, error), want int) {
	t.Helper()
	if got, err := c.Ask(t.Context(), q, ask); err != nil || got != want {
		t.Errorf("question %q: %d, %v, want %d", q, got, err, want)
	}
}

// TestAnswersExpire checks that the time of an answer begins with its question.
func TestAnswersExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, c := newCache(100), &counter{delay: time.Second}
		want(t, cache, "a", c.ask, 1)
		time.Sleep(life - time.Second - 1)
		want(t, cache, "a", c.ask, 1)
		time.Sleep(time.Nanosecond)
		want(t, cache, "a", c.ask, 2)
		want(t, cache, "a", c.ask, 2)
	})
}

// TestCallersShareAQuestion checks that callers with one question share a call, and that the end of
// the caller that asks does not end the others.
func TestCallersShareAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, c := newCache(100), &counter{delay: time.Second}
		first, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := cache.Ask(first, "a", c.ask)
			left <- err
		}()
		synctest.Wait()
		got := make(chan int)
		for range 10 {
			go func() {
				n, err := cache.Ask(t.Context(), "a", c.ask)
				if err != nil {
					t.Error(err)
				}
				got <- n
			}()
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := cache.Ask(impatient, "a", c.ask); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller with a deadline got %v", err)
		}
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that left got %v", err)
		}
		for range 10 {
			if n := <-got; n != 2 {
				t.Errorf("a caller got the answer of call %d, want 2", n)
			}
		}
		if c.calls != 2 {
			t.Errorf("asked %d times, want 2: of the caller that left, and of one other", c.calls)
		}
	})
}

func TestErrorsAreNotStored(t *testing.T) {
	cache, c := newCache(100), &counter{}
	failure := errors.New("failure")
	if _, err := cache.Ask(t.Context(), "a", func(context.Context) (int, error) { return 0, failure }); !errors.Is(err,
		failure) {
		t.Errorf("got %v, want %v", err, failure)
	}
	want(t, cache, "a", c.ask, 1)
}

// TestBytesAreBounded checks that the oldest answers leave first, and that a too large one is not
// stored.
func TestBytesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, c := newCache(8), &counter{}
		want(t, cache, "aaaa", c.ask, 1)
		want(t, cache, "bbbb", c.ask, 2)
		want(t, cache, "cccccccccc", c.ask, 3)
		want(t, cache, "cccccccccc", c.ask, 4)
		want(t, cache, "aaaa", c.ask, 1)
		want(t, cache, "d", c.ask, 5) // in the place of a
		want(t, cache, "bbbb", c.ask, 2)
		want(t, cache, "aaaa", c.ask, 6) // in the place of b
		want(t, cache, "d", c.ask, 5)
		time.Sleep(life)
		want(t, cache, "d", c.ask, 7)
		if n, bytes := cache.Stored(); n != 1 || bytes != 1 {
			t.Errorf("%d answers of %d bytes are stored, want only the new one", n, bytes)
		}
	})
}
