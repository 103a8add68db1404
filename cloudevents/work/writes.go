// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
)

var (
	// errStopped is the error of a write to a client that has stopped and would not deliver it.
	errStopped = apierrors.NewServiceUnavailable("the client has stopped and delivers no more writes")
	// errReplaced is the error of a write during which another replica became the leader.
	errReplaced = apierrors.NewServiceUnavailable(
		"another replica is the leader and may not have this change: read the object again")
)

// durable waits until a write of the clientset is stored.
func durable(ctx context.Context, j *journal.Journal) error {
	const unstored = "the change was made in memory but is not stored yet"
	err := j.Flush(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, journal.ErrCondition):
		return errReplaced
	case errors.Is(err, journal.ErrClosed):
		return errStopped
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		message := fmt.Sprint(unstored, ": it is stored as soon as possible, read it again to find out: ", err)
		return clientset.Timeout(message, 0, err)
	}
	return apierrors.NewInternalError(fmt.Errorf("%s: %w", unstored, err))
}

// room returns an error if the outbox has no room for one more work: TooManyRequests if limit works
// are queued, ServiceUnavailable if works must not wait for a connection and the client is not
// connected.
func room(e *cloudevents.Engine, it cloudevents.Item, limit int, waits bool) error {
	if !waits && !e.Connected() {
		return apierrors.NewServiceUnavailable("not connected to the broker, and the outbox is disabled")
	}
	if !e.Admits(it, limit) {
		return apierrors.NewTooManyRequests(fmt.Sprintf(
			"%d works wait to be published, which is the limit: the broker is away or too slow", limit), 1)
	}
	return nil
}
