// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"context"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/wait"
)

// checkTimeout is the time after which a check without an answer has failed.
const checkTimeout = 10 * time.Second

// Watch logs when a part that the program depends on fails, and when it works again.
type Watch struct {
	// Lost and Back are the messages. KeysAndValues are those of both records.
	Lost, Back    string
	KeysAndValues []any
	// Check returns an error while the part fails. It is called once in each interval, and its
	// context ends after 10 s.
	Check    func(context.Context) error
	Interval time.Duration
}

// Start checks until ctx ends, and returns nil.
func (w Watch) Start(ctx context.Context) error {
	log := klog.FromContext(ctx).WithValues(w.KeysAndValues...)
	lost := false
	for ; ctx.Err() == nil; _ = wait.Sleep(ctx, clock.RealClock{}, w.Interval) {
		timed, cancel := context.WithTimeout(ctx, checkTimeout)
		err := w.Check(timed)
		cancel()
		switch {
		case ctx.Err() != nil:
		case err != nil && !lost:
			lost = true
			log.Error(err, w.Lost)
		case err == nil && lost:
			lost = false
			log.Info(w.Back)
		}
	}
	return nil
}
