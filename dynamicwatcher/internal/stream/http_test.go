// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var secrets = stream.Target{Resource: fakeapi.Secret.GroupVersion().WithResource("secrets"), Namespace: "ns"}

// script runs f with a server in memory.
func script(t *testing.T, f func(*testing.T, *fakeapi.Server, *stream.HTTP)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New()
		defer api.Close()
		h, err := stream.NewHTTP(api.Config(), nil, clock.RealClock{})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		f(t, api, h)
	})
}

// read reads events until all existing objects have arrived, and then n more.
func read(t *testing.T, s stream.Stream, n int) (names []string) {
	t.Helper()
	for synced := false; !synced || n > 0; {
		e, err := s.Next()
		if err != nil {
			t.Fatalf("after %v: %v", names, err)
		}
		if synced {
			n--
		}
		synced = synced || e.Type == stream.Synced
		names = append(names, fmt.Sprintf("%d%s", e.Type, e.Name))
	}
	return names
}

func TestServerWithoutWatchListIsListed(t *testing.T) {
	for _, test := range []struct {
		name  string
		plain bool
		whole bool
		lists int
	}{
		{"a server with WatchList", false, false, 0},
		{"a server without WatchList", true, false, 3},
		{"whole objects", true, true, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			script(t, func(t *testing.T, api *fakeapi.Server, h *stream.HTTP) {
				api.Plain, api.PageSize = test.plain, 2
				for _, name := range []string{"a", "b", "c", "d", "e"} {
					api.Put(fakeapi.Object(fakeapi.Secret, "ns", name))
				}
				target := secrets
				target.Whole = test.whole
				for range 2 {
					s, err := h.Open(t.Context(), target, "")
					if err != nil {
						t.Fatal(err)
					}
					synctest.Wait() // until the existing objects have arrived
					api.Delete(fakeapi.Secret, "ns", "e")
					api.Put(fakeapi.Object(fakeapi.Secret, "ns", "e"))
					got := fmt.Sprint(read(t, s, 2))
					if want := fmt.Sprintf("[0a 0b 0c 0d 0e %d %de 0e]", stream.Synced, stream.Deleted); got != want {
						t.Errorf("the events are %v, not %v", got, want)
					}
					s.Close()
				}
				if c := api.Counts(); c.Lists != 2*test.lists {
					t.Errorf("the server has seen %+v", c)
				}
				initial := 0
				for _, q := range api.Requests() {
					if q.Initial {
						initial++
					}
				}
				if want := map[bool]int{false: 2, true: 1}[test.plain]; initial != want {
					t.Errorf("the server was asked %d times for what exists, not %d", initial, want)
				}
			})
		})
	}
}

func TestOpenReturnsServerErrors(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault fakeapi.Fault
		is    func(error) bool
	}{
		{"aborted", fakeapi.Fault{Abort: true}, func(err error) bool { return errors.Is(err, stream.ErrConnection) }},
		{"forbidden", fakeapi.Fault{Status: 403}, apierrors.IsForbidden},
		{"too old", fakeapi.Fault{Status: 410}, stream.Expired},
	} {
		script(t, func(t *testing.T, api *fakeapi.Server, h *stream.HTTP) {
			api.Hook(func(fakeapi.Request) fakeapi.Fault { return test.fault })
			if _, err := h.Open(t.Context(), secrets, ""); !test.is(err) {
				t.Errorf("%s: the error is %v", test.name, err)
			}
		})
	}
	script(t, func(t *testing.T, api *fakeapi.Server, h *stream.HTTP) {
		if _, err := h.Open(t.Context(), secrets, "999999"); !stream.Expired(err) {
			t.Errorf("a version from the future: the error is %v", err)
		}
		api.Hook(func(fakeapi.Request) fakeapi.Fault { return fakeapi.Fault{Hang: true} })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Open(ctx, secrets, ""); !errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, stream.ErrConnection) {
			t.Errorf("a context that has ended: the error is %v", err)
		}
	})
}

func TestNextReturnsReasonForEnd(t *testing.T) {
	script(t, func(t *testing.T, api *fakeapi.Server, h *stream.HTTP) {
		for _, test := range []struct {
			ending fakeapi.Ending
			is     func(error) bool
		}{
			{fakeapi.End, func(err error) bool { return errors.Is(err, io.EOF) && !errors.Is(err, stream.ErrConnection) }},
			{fakeapi.Cut, func(err error) bool { return errors.Is(err, stream.ErrConnection) }},
			{fakeapi.Expired, stream.Expired},
		} {
			api.Hook(func(fakeapi.Request) fakeapi.Fault { return fakeapi.Fault{After: 1, Ending: test.ending} })
			s, err := h.Open(t.Context(), secrets, "")
			if err != nil {
				t.Fatal(err)
			}
			read(t, s, 0)
			if _, err := s.Next(); !test.is(err) {
				t.Errorf("the end %d is %v", test.ending, err)
			}
			s.Close()
			s.Close()
		}
	})
}
