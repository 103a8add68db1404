// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/spokewire/sdk-go/examples/rsync/internal/folder"
	"github.com/spokewire/sdk-go/rsync"
)

// callOptions are those of an event.
func (c *client) callOptions() ([]rsync.CallOption, error) {
	out := []rsync.CallOption{rsync.IdempotencyKey(c.options.Key)}
	if c.options.Rollout == "" {
		return out, nil
	}
	text, err := os.ReadFile(c.options.Rollout)
	if err != nil {
		return nil, fmt.Errorf("--rollout: %w", err)
	}
	r, err := folder.Rollout(text)
	if err != nil {
		return nil, fmt.Errorf("--rollout %s: %w", c.options.Rollout, err)
	}
	return append(out, rsync.WithRollout(*r)), nil
}

// rollout controls the last rollout of a context, or writes how far it is.
func (c *client) rollout(ctx context.Context) error {
	id := c.options.Args[0]
	ref, err := c.lastRollout(ctx, id)
	if err != nil {
		return err
	}
	switch c.options.Command {
	case "approve":
		gate := rsync.BeforeGroup
		if c.options.After {
			gate = rsync.AfterGroup
		}
		err = c.engine.Approve(ctx, ref, rsync.Approval{Group: c.options.Args[1], Gate: gate})
	case "pause":
		err = c.engine.Pause(ctx, ref)
	case "resume":
		err = c.engine.Resume(ctx, ref)
	case "abort":
		err = c.engine.Abort(ctx, ref)
	}
	if err != nil {
		return err
	}
	return c.showRollout(ctx, ref)
}

// lastRollout returns the last event of a context that has a rollout.
func (c *client) lastRollout(ctx context.Context, id string) (ref rsync.EventRef, err error) {
	status, err := c.engine.Status(ctx, id)
	if err != nil {
		return ref, err
	}
	for _, e := range status.Queue {
		if e.Rollout {
			ref = rsync.EventRef{AppContextID: id, Seq: e.Seq}
		}
	}
	if ref.Seq == 0 {
		err = fmt.Errorf("%s has no rollout: start one with --rollout FILE", id)
	}
	return ref, err
}

func (c *client) showRollout(ctx context.Context, ref rsync.EventRef) error {
	r, err := c.engine.RolloutStatus(ctx, ref)
	if err != nil {
		return err
	}
	c.say("%s: rollout of event %d: %s", ref.AppContextID, ref.Seq, r.Status)
	for _, g := range r.Groups {
		c.say("  %s: %d of %d succeeded, %d in progress, %d failed", cmp.Or(g.Name, "clusters in no group"), g.Succeeded, g.Clusters, g.InProgress, g.Failed)
	}
	if r.Waiting != "" {
		c.say("  %s", r.Waiting)
	}
	return nil
}
