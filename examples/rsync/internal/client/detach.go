// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"

	"github.com/spokewire/sdk-go/rsync"
)

// diff writes the changes that an event would make. It returns an error if clusters did not answer.
func (c *client) diff(ctx context.Context) error {
	event := rsync.Instantiate
	switch {
	case c.options.From != "":
		event = rsync.Update
	case c.options.Terminate:
		event = rsync.Terminate
	}
	d, err := c.engine.Diff(ctx, event, c.options.Args[0], c.options.From)
	if err != nil {
		return err
	}
	if c.options.Output == "json" {
		encoder := json.NewEncoder(c.out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(d)
	} else {
		_, err = d.WriteTo(c.out)
	}
	if err != nil {
		return err
	}
	return d.Err()
}

// detach runs the commands detach, attach and forget.
func (c *client) detach(ctx context.Context) error {
	id, cluster := c.options.Args[0], c.options.On[0]
	var err error
	switch c.options.Command {
	case "detach":
		if err = c.engine.Detach(ctx, id, cluster); err == nil {
			c.print("%s: detached from %s", id, cluster)
		}
	case "attach":
		if err = c.engine.Attach(ctx, id, cluster); err == nil {
			c.print("%s: attached to %s; instantiate applies it there", id, cluster)
		}
	case "forget":
		if err = c.engine.Forget(ctx, cluster); err == nil {
			c.print("%s: forgotten", cluster)
		}
	}
	return err
}

// detached lists pending cleanups.
func (c *client) detached(ctx context.Context) error {
	all, err := c.engine.Detached(ctx)
	for i := range all {
		r := &all[i]
		c.print("%s: %d objects of %s since %s", r.Cluster, len(r.Objects), r.AppContextID,
			r.Since.Format("2006-01-02 15:04:05"))
		if r.Reason != "" {
			c.print("  %s", words(r.Reason, r.Message))
		}
		for _, o := range r.Objects {
			c.print("  %s", o)
		}
	}
	return err
}
