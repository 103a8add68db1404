// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/httpserve"
	"github.com/spokewire/sdk-go/internal/wait"
)

const (
	// maxWait limits the time that a request waits.
	maxWait = 10 * time.Minute
	// maxWaits limits the requests that wait.
	maxWaits = 100
	// A watch reads the state again at most once in this time, and at most this share of the time.
	watchPause, watchShare = 250 * time.Millisecond, 10
	// watchAge is the age after which it is read again without a change: links have no events.
	watchAge = 5 * time.Second
)

// begin begins a wait of a request. The time is the value of a parameter.
func (a *api) begin(r *http.Request, parameter, value string) (_ context.Context, end func(), err error) {
	limit, err := time.ParseDuration(value)
	if err != nil || limit <= 0 || limit > maxWait {
		return nil, nil,
			failf(http.StatusBadRequest, "%s: must be a duration of up to %s, for example 30s", parameter, maxWait)
	}
	select {
	case a.waits <- struct{}{}:
	default:
		return nil, nil,
			failf(http.StatusServiceUnavailable, "%d requests wait already: retry later, or without %s", maxWaits, parameter)
	}
	httpserve.EndTurn(r.Context())
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	return ctx, func() { cancel(); <-a.waits }, nil
}

// watch returns the answer of f when it differs from the one that the client has, at the latest after
// the time in the request.
func (a *api) watch(w http.ResponseWriter, r *http.Request, f handler) (int, any, error) {
	ctx, end, err := a.begin(r, "watch", r.URL.Query().Get("watch"))
	if err != nil {
		return 0, nil, err
	}
	defer end()
	for {
		next, began := a.Changes.Next(), time.Now()
		code, body, err := f(r)
		if err != nil {
			return 0, nil, err
		}
		sum := sha256.New()
		write(sum, body)
		tag := fmt.Sprintf(`"%x"`, sum.Sum(nil)[:16])
		w.Header().Set("ETag", tag)
		if tag != strings.TrimPrefix(r.Header.Get("If-None-Match"), "W/") { // of a proxy that compresses
			return code, body, nil
		}
		took, old := time.Since(began), time.NewTimer(watchAge)
		select {
		case <-next:
		case <-old.C:
		case <-ctx.Done():
		}
		old.Stop()
		if wait.Sleep(ctx, clock.RealClock{}, max(watchPause, watchShare*took)) != nil {
			return http.StatusNotModified, nil, nil
		}
	}
}
