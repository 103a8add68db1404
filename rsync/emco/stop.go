// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package emco

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

const stopLevel = "stopflag/"

// FollowStop stops a context in the engine if EMCO's stop flag of the context is true, and clears
// the stop if the flag is false. Without a flag it changes nothing.
//
// [Bridge.Start] calls it when the flag of a context with events changes. A server must call it
// before it queues an event, because EMCO's orchestrator sets the flag to false right before it
// calls UninstallApp.
//
// It returns rsync.ErrNotFound if a context with a flag does not exist in the engine. For a flag
// other than true and false it returns a [*appcontext.Problem]. It also returns errors of the
// stores.
func (b *Bridge) FollowStop(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	for range conflictLimit {
		kv, err := b.keys.Get(ctx, rootOf(id)+stopLevel)
		if err != nil || !kv.Exists() {
			return err
		}
		var stop *bool
		if json.Unmarshal(kv.Value, &stop) != nil || stop == nil {
			return problem(kv.Key, "must be true or false")
		}
		if err := b.setStop(ctx, id, *stop); err != nil {
			return err
		}
		// The flag may have changed meanwhile, and another bridge may have followed the change
		// first.
		now, err := b.keys.Get(ctx, kv.Key)
		if err != nil || now.ModRevision == kv.ModRevision {
			return err
		}
	}
	return fmt.Errorf("follow the stop flag of EMCO's app context %q: other writers change it too often", id)
}

func (b *Bridge) setStop(ctx context.Context, id string, stop bool) error {
	status, err := b.engine.Status(ctx, id)
	switch {
	case err != nil || status.Stopped == stop:
		return err
	case stop:
		return b.engine.Stop(ctx, id)
	}
	return b.engine.ClearStop(ctx, id)
}

// followStops follows the stop flag of a context until ctx ends.
func (b *Bridge) followStops(ctx context.Context, id string) {
	for ctx.Err() == nil {
		if err := b.watchStop(ctx, id); err != nil && ctx.Err() == nil && !errors.Is(err, rsync.ErrNotFound) {
			klog.FromContext(ctx).Error(err, "Failed to follow EMCO's stop flag, retrying", "appContext", id)
		}
		sleep(ctx, retryPause)
	}
}

func (b *Bridge) watchStop(ctx context.Context, id string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	key := rootOf(id) + stopLevel
	result, err := b.keys.Range(ctx, key)
	if err != nil {
		return err
	}
	if err := b.follow(ctx, id); err != nil {
		return err
	}
	for message := range b.keys.Watch(ctx, key, result.Revision+1) {
		if message.Err != nil {
			return message.Err
		}
		if len(message.Events) == 0 {
			continue
		}
		if err := b.follow(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// follow is FollowStop for a watched flag. It logs a flag that is neither true nor false, and does
// not retry: only a new value can correct it.
func (b *Bridge) follow(ctx context.Context, id string) error {
	err := b.FollowStop(ctx, id)
	if appcontext.Has(err, appcontext.FaultBadLayout) {
		klog.FromContext(ctx).Error(err, "Ignored EMCO's stop flag", "appContext", id)
		return nil
	}
	return err
}
