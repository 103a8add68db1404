// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

const (
	// quiet is the time without a failure after which client-go has recovered: it retries after 30 s,
	// and each try may take 60 s.
	quiet = 2 * time.Minute
	// At most mostRepeated failures are remembered, each with a key of at most mostKey bytes.
	mostRepeated, mostKey = 256, 1024
)

// digits differ in each repetition: ports, versions, durations.
var digits = regexp.MustCompile(`[0-9]+`)

// repeated logs a failure that client-go reports again and again, for example of a watch, once, and
// its end once.
type repeated struct {
	mu   sync.Mutex
	ends map[string]*time.Timer
}

// handle is a [utilruntime.ErrorHandler].
func (r *repeated) handle(ctx context.Context, err error, message string, keysAndValues ...any) {
	key := digits.ReplaceAllString(fmt.Sprint(message, err, keysAndValues), "")
	key = key[:min(len(key), mostKey)]
	log := klog.FromContext(ctx).WithValues(keysAndValues...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if end := r.ends[key]; end != nil {
		end.Reset(quiet)
		return
	}
	log.Error(err, message)
	if len(r.ends) < mostRepeated {
		r.ends[key] = time.AfterFunc(quiet, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.ends[key] != nil {
				delete(r.ends, key)
				log.Info("Recovered from a failure", "failure", message)
			}
		})
	}
}

// handleRepeated makes client-go report failures to a new [repeated].
func handleRepeated() (restore func()) {
	r, before := &repeated{ends: map[string]*time.Timer{}}, utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = append([]utilruntime.ErrorHandler{r.handle}, before[1:]...) // the first one logs
	return func() { utilruntime.ErrorHandlers = before }
}
