// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/appcontext/folder"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
)

// call makes the call of a command, and writes its result.
func call(ctx context.Context, o *options, out io.Writer) error {
	engine, err := rsyncgrpc.NewClient(o.addr, rsyncgrpc.ClientOptions{
		CAFile: o.ca, CertFile: o.cert, KeyFile: o.key, Insecure: o.insecure, RetryTimeout: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	defer func() { _ = engine.Close() }()
	var ref rsync.EventRef
	switch o.name {
	case "create":
		return create(ctx, engine, o, out)
	case "diff":
		event := rsync.Instantiate
		if o.terminate {
			event = rsync.Terminate
		}
		d, err := engine.Diff(ctx, event, o.args[0], "")
		if err != nil {
			return err
		}
		_, err = d.WriteTo(out)
		return cmp.Or(err, d.Err()) // of clusters that did not answer
	case "status":
		return status(ctx, engine, o, out)
	case "list":
		all, err := engine.List(ctx)
		for _, s := range all {
			fmt.Fprintln(out, s.ID, s.State)
		}
		return err
	case "detach":
		for _, c := range o.clusters {
			err = cmp.Or(err, engine.Detach(ctx, o.args[0], c))
		}
		return err
	case "delete":
		return engine.Delete(ctx, o.args[0])
	case "instantiate":
		ref, err = engine.Instantiate(ctx, o.args[0])
	case "update":
		ref, err = engine.Update(ctx, o.args[0], o.args[1])
	case "terminate":
		ref, err = engine.Terminate(ctx, o.args[0])
	}
	if err != nil {
		return err
	}
	s, err := engine.Wait(ctx, ref)
	if err == nil {
		fmt.Fprintf(out, "%s: %s\n", s.ID, s.State)
	}
	return err
}

func create(ctx context.Context, engine *rsyncgrpc.Client, o *options, out io.Writer) error {
	id, dir := o.args[0], o.args[1]
	b := appcontext.NewBuilder(id)
	if err := folder.Add(b, os.DirFS(dir), "main", o.clusters...); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	a, err := b.Build()
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if err := engine.Create(ctx, a); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: created with %d apps on %d clusters\n", id, len(a.Apps), len(o.clusters))
	return nil
}

// status writes the current status, or with --watch all changes, as JSON.
func status(ctx context.Context, engine *rsyncgrpc.Client, o *options, out io.Writer) error {
	encoder := json.NewEncoder(out)
	s, err := engine.Status(ctx, o.args[0])
	if err != nil {
		return err // also before a watch, which would wait for a server forever
	}
	if !o.watch {
		encoder.SetIndent("", "  ")
		return encoder.Encode(s)
	}
	for change, err := range engine.Watch(ctx, s.ID, 0) {
		if err == nil {
			err = encoder.Encode(change)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
