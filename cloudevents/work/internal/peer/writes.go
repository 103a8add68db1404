// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
)

var (
	// ErrStopped is the error of a write to a client that has stopped and would not deliver it.
	ErrStopped = apierrors.NewServiceUnavailable("the source or agent has stopped and accepts no writes")
	// ErrReplaced is the error of a write during which another replica became the leader.
	ErrReplaced = apierrors.NewServiceUnavailable(
		"another replica is the leader and may not have this change: read the object again")
)

// Durable waits until a write of the clientset is stored.
func Durable(ctx context.Context, j *journal.Journal) error {
	const unstored = "the change was made in memory but is not stored yet"
	err := j.Flush(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, journal.ErrCondition):
		return ErrReplaced
	case errors.Is(err, journal.ErrClosed):
		return ErrStopped
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		message := fmt.Sprint(unstored, ": it is stored as soon as possible; read the object again to check: ", err)
		return clientset.Timeout(message, 0, err)
	}
	return apierrors.NewInternalError(fmt.Errorf("%s: %w", unstored, err))
}

// maxUnacknowledged is the number of works that may be unacknowledged without an outbox.
const maxUnacknowledged = 10_000

// CheckRoom returns an error if the outbox has no room for one more work: TooManyRequests if limit
// works are queued, ServiceUnavailable without an outbox (-1) while the client is not connected.
func CheckRoom(e *engine.Engine, it engine.Item, limit int) error {
	if limit < 0 {
		if !e.Connected() {
			return apierrors.NewServiceUnavailable("not connected to the broker, and the outbox is disabled")
		}
		limit = maxUnacknowledged
	}
	if !e.Admits(it, limit) {
		return apierrors.NewTooManyRequests(fmt.Sprintf(
			"the outbox is full with %d works: the broker is unavailable or too slow", limit), 1)
	}
	return nil
}
