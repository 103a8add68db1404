// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package client runs the commands of a client, and writes their results.
package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/examples/rsync/internal/flags"
	"github.com/spokewire/sdk-go/examples/rsync/internal/folder"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/store"
)

// retryTimeout limits how long a command waits for a server that does not answer.
const retryTimeout = 5 * time.Second

// Run runs one command.
func Run(ctx context.Context, o flags.Options, stdout io.Writer) error {
	engine, err := rsyncgrpc.NewClient(o.Server, rsyncgrpc.ClientOptions{
		CAFile: o.CA, CertFile: o.Cert, KeyFile: o.KeyFile, Insecure: o.Insecure(), RetryTimeout: retryTimeout,
	})
	if err != nil {
		return fmt.Errorf("--server, --ca, --cert or --key-file: %w", err)
	}
	defer func() { _ = engine.Close() }()
	c := &client{engine: engine, options: o, out: stdout}
	switch o.Command {
	case "create":
		return c.create(ctx)
	case "list":
		return c.list(ctx)
	case "status":
		return c.status(ctx)
	case "stop", "clear-stop", "delete":
		return c.now(ctx)
	case "diff":
		return c.diff(ctx)
	case "detach", "attach", "forget":
		return c.detach(ctx)
	case "detached":
		return c.detached(ctx)
	case "rollout", "approve", "pause", "resume", "abort":
		return c.rollout(ctx)
	}
	return c.event(ctx)
}

type client struct {
	engine  rsyncgrpc.Engine
	options flags.Options
	out     io.Writer
}

func (c *client) print(format string, args ...any) { fmt.Fprintf(c.out, format+"\n", args...) }

func (c *client) create(ctx context.Context) error {
	id, dir := c.options.Args[0], c.options.Args[1]
	overrides, err := c.overrides()
	if err != nil {
		return err
	}
	shop, err := folder.Read(os.DirFS(dir), id, c.options.App, c.options.On, overrides)
	if appcontext.Has(err, appcontext.FaultBadOverride) {
		return fmt.Errorf("--override %s: %w", c.options.Override, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if err := c.engine.Create(ctx, shop); err != nil {
		return err
	}
	c.print("%s: created with %d apps on %d clusters", id, len(shop.Apps), len(c.options.On))
	return nil
}

// overrides returns the overrides for create.
func (c *client) overrides() ([]folder.Override, error) {
	if c.options.Override == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.options.Override)
	if err != nil {
		return nil, fmt.Errorf("--override: %w", err)
	}
	out, err := folder.Overrides(text)
	if err != nil {
		return nil, fmt.Errorf("--override %s: %w", c.options.Override, err)
	}
	return out, nil
}

func (c *client) list(ctx context.Context) error {
	all, err := c.engine.List(ctx)
	for _, s := range all {
		c.print("%-40s %s", s.ID, s.State)
	}
	return err
}

// now runs a command that has no event.
func (c *client) now(ctx context.Context) error {
	id := c.options.Args[0]
	do, done := c.engine.Stop, "stopped"
	switch c.options.Command {
	case "clear-stop":
		do, done = c.engine.ClearStop, "no longer stopped"
	case "delete":
		do, done = c.engine.Delete, "deleted"
	}
	if err := do(ctx, id); err != nil {
		return err
	}
	c.print("%s: %s", id, done)
	return nil
}

// event queues an event, and waits for it.
func (c *client) event(ctx context.Context) error {
	args := c.options.Args
	var ref rsync.EventRef
	options, err := c.callOptions()
	if err != nil {
		return err
	}
	switch c.options.Command {
	case "instantiate":
		ref, err = c.engine.Instantiate(ctx, args[0], options...)
	case "terminate":
		ref, err = c.engine.Terminate(ctx, args[0], options...)
	case "read":
		ref, err = c.engine.Read(ctx, args[0], options...)
	case "update":
		ref, err = c.engine.Update(ctx, args[0], args[1], options...)
	case "rollback":
		ref, err = c.engine.Rollback(ctx, args[0], args[1], options...)
	default:
		err = errors.ErrUnsupported
	}
	if err != nil {
		return err
	}
	c.print("%s: queued as event %d", ref.AppContextID, ref.Seq)
	if c.options.NoWait {
		return nil
	}
	status, err := c.engine.Wait(ctx, ref)
	if status != nil {
		c.show(status, ref.Seq)
	}
	return err
}

// show writes a status. With a number, it writes only the results of that event.
func (c *client) show(s *rsync.Status, seq uint64) {
	stopped := ""
	if s.Stopped {
		stopped = ", stopped"
	}
	c.print("%s: %s%s", s.ID, s.State, stopped)
	for _, cluster := range s.Detached {
		c.print("  %s is detached", cluster)
	}
	for i := range s.Queue {
		if seq == 0 || s.Queue[i].Seq == seq {
			c.print("  %s", element(&s.Queue[i]))
		}
	}
	for i := range s.Clusters {
		if seq == 0 || s.Clusters[i].Seq == seq {
			c.cluster(&s.Clusters[i])
		}
	}
	for i := range s.Observed {
		c.observation(&s.Observed[i])
	}
}

func (c *client) observation(o *rsync.Observation) {
	drift := ""
	if o.Drifted > 0 {
		drift = fmt.Sprintf(", %d drifted", o.Drifted)
	}
	c.print("  %s", words(o.App, "on", o.Cluster, fmt.Sprintf("observed: %d of %d ready%s", o.Ready, o.Objects, drift),
		o.Reason, o.Message))
	for _, s := range o.NotReady {
		c.print("    %s: %s", s.Object, words("not ready", s.Message))
	}
	for i := range o.Drift {
		d := &o.Drift[i]
		c.print("    %s: %s", d.Object, words(d.Kind, d.Message))
		for _, f := range d.Fields {
			c.print("      %s: %s, must be %s", f.Path, f.Before, f.After)
		}
	}
}

func (c *client) cluster(s *rsync.ClusterStatus) {
	c.print("  %s", words(s.App, "on", s.Cluster, s.Event, s.Phase, s.Reason, s.Message))
	for _, r := range s.Resources {
		state := []string{}
		for word, so := range map[string]bool{
			"missing": !r.Exists, "ready": r.Ready, "failed": r.Failed, "not ready": r.Exists && !r.Ready && !r.Failed,
		} {
			if so {
				state = append(state, word)
			}
		}
		slices.Sort(state)
		c.print("    %s: %s", r.Object, words(strings.Join(state, ", "), r.Message))
	}
}

func element(e *rsync.Element) string {
	from := ""
	if e.UCID != "" {
		from = "(with " + e.UCID + ")"
	}
	return words("event", e.Seq, e.Event, from, e.Status, e.Reason, e.Message)
}

// words joins the non-empty values.
func words(all ...any) string {
	var out []string
	for _, w := range all {
		if text := fmt.Sprint(w); text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, " ")
}

// status writes the current status, and with --watch all later changes.
func (c *client) status(ctx context.Context) error {
	id := c.options.Args[0]
	s, err := c.engine.Status(ctx, id)
	if err != nil {
		return err // also before a watch, which would wait for a server forever
	}
	if !c.options.Watch {
		c.show(s, 0)
		return nil
	}
	for missed := false; ; missed = true {
		err := c.watch(ctx, id)
		if missed && errors.Is(err, rsync.ErrNotFound) {
			c.print("%s: deleted meanwhile", id)
			return nil
		}
		if !errors.Is(err, store.ErrCompacted) {
			return err
		}
		c.print("%s: earlier changes are no longer available; later changes:", id)
	}
}

// watch writes the current state and all changes, until the context is deleted or ctx ends.
func (c *client) watch(ctx context.Context, id string) error {
	for change, err := range c.engine.Watch(ctx, id, 0) {
		switch {
		case err != nil:
			return err
		case change.Deleted:
			c.print("%s: deleted", id)
		case change.Element != nil:
			c.print("  %s", element(change.Element))
		case change.Cluster != nil:
			c.cluster(change.Cluster)
		case change.Observed != nil:
			c.observation(change.Observed)
		case change.Rollout != 0:
			if err := c.showRollout(ctx, rsync.EventRef{AppContextID: id, Seq: change.Rollout}); err != nil &&
				!errors.Is(err, rsync.ErrNotFound) {
				return err
			}
		default:
			c.print("%s: %s", id, change.State)
		}
	}
	return nil
}
