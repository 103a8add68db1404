// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spokewire/sdk-go/examples/rsync/internal/folder"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/store"
)

// callOptions returns the options of an event.
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

// rollout controls the last rollout of a context, and writes its progress.
func (c *client) rollout(ctx context.Context) error {
	id := c.options.Args[0]
	ref, err := c.lastRollout(ctx, id)
	if err != nil {
		return err
	}
	switch c.options.Command {
	case "approve":
		gate := rsync.GateBeforeGroup
		if c.options.After {
			gate = rsync.GateAfterGroup
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
	if c.options.Watch {
		return c.followRollout(ctx, ref)
	}
	return c.showRollout(ctx, ref)
}

// lastRollout returns the event with the rollout in progress, or the last event that had a rollout.
func (c *client) lastRollout(ctx context.Context, id string) (ref rsync.EventRef, err error) {
	status, err := c.engine.Status(ctx, id)
	if err != nil {
		return ref, err
	}
	for _, e := range status.Queue {
		if e.Rollout {
			ref = rsync.EventRef{AppContextID: id, Seq: e.Seq}
			if !e.Status.Final() {
				break // later events wait for this one
			}
		}
	}
	if ref.Seq == 0 {
		err = fmt.Errorf("%s has no rollout: start one with --rollout FILE", id)
	}
	return ref, err
}

func (c *client) showRollout(ctx context.Context, ref rsync.EventRef) error {
	text, err := c.rolloutText(ctx, ref)
	if err == nil {
		_, err = io.WriteString(c.out, text)
	}
	return err
}

func (c *client) rolloutText(ctx context.Context, ref rsync.EventRef) (string, error) {
	r, err := c.engine.RolloutStatus(ctx, ref)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: rollout of event %d: %s\n", ref.AppContextID, ref.Seq, r.Status)
	for _, g := range r.Groups {
		fmt.Fprintf(&b, "  %s: %d of %d succeeded, %d in progress, %d failed\n",
			cmp.Or(g.Name, "clusters in no group"), g.Succeeded, g.Clusters, g.InProgress, g.Failed)
	}
	if r.Waiting != "" {
		fmt.Fprintf(&b, "  %s\n", r.Waiting)
	}
	return b.String(), nil
}

// followRollout writes the progress of a rollout after each change, until the event ends. It
// returns the error of the event.
func (c *client) followRollout(ctx context.Context, ref rsync.EventRef) error {
	err := c.watchRollout(ctx, ref)
	for errors.Is(err, store.ErrCompacted) {
		err = c.watchRollout(ctx, ref)
	}
	if err == nil {
		_, err = c.engine.Wait(ctx, ref)
	}
	return err
}

func (c *client) watchRollout(ctx context.Context, ref rsync.EventRef) error {
	before := ""
	for change, err := range c.engine.Watch(ctx, ref.AppContextID, 0) {
		if err != nil {
			return err
		}
		e := change.Element
		mine := e != nil && e.Seq == ref.Seq
		if !mine && change.Rollout != ref.Seq && (change.Cluster == nil || change.Cluster.Seq != ref.Seq) {
			continue
		}
		text, err := c.rolloutText(ctx, ref)
		if err != nil {
			return err
		}
		if text != before {
			if _, err := io.WriteString(c.out, text); err != nil {
				return err
			}
			before = text
		}
		if mine && e.Status.Final() {
			return nil
		}
	}
	return ctx.Err()
}
