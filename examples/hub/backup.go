// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/spokewire/sdk-go/examples/hub/internal/hub"
	"github.com/spokewire/sdk-go/examples/internal/backup"
	"github.com/spokewire/sdk-go/examples/internal/commands"
)

// restoreCommand returns the command restore.
func restoreCommand(stdout io.Writer) *cobra.Command {
	var o options
	cmd := &cobra.Command{Use: "restore FILE", Short: "write a backup to an empty store"}
	cmd.Long = `Writes a backup to an empty store, which may be of another kind than the store of the backup. Stop the
hub before, and start it again with the same --source. After an interrupted restore, no hub starts
with the store until the command was repeated.`
	cmd.Flags().StringVar(&o.Store, "store", "hub-data", "the `STORE` as in hub --help: a folder, or a database with "+
		"postgres://USER@HOST/DATABASE")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.validateURLs(); err != nil {
			return commands.Mistake("%w", err)
		}
		h, err := o.restore(cmd.Context(), args[0])
		if err == nil {
			_, err = fmt.Fprintf(stdout, "restored %s: the backup of %s, of the hub with --source %s\n",
				o.Store, h.Created.Format(time.RFC3339), h.Source)
		}
		return err
	}
	return cmd
}

func (o options) restore(ctx context.Context, from string) (h backup.Header, err error) {
	file, err := os.Open(from)
	if err != nil {
		return h, err
	}
	defer func() { _ = file.Close() }()
	if h, err = backup.Read(file, nil); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return h, fmt.Errorf("%s: %w", from, err)
	}
	p := &parts{}
	o.Source = h.Source
	if err = p.openStores(ctx, o); err == nil {
		if err = backup.Restore(ctx, file, backup.Stores{State: p.state, Works: p.works}, hub.Restored); err != nil {
			err = fmt.Errorf("--store %s: %w", o.Store, err)
		}
	}
	return h, errors.Join(err, p.closeAll())
}

// openStores opens the stores of --store.
func (p *parts) openStores(ctx context.Context, o options) error {
	open := p.openFolder
	if o.shared() {
		open = p.openDatabase
	}
	if err := open(ctx, o); err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	return nil
}

// checkStores returns an error for a store with an interrupted restore.
func (p *parts) checkStores(ctx context.Context) error {
	if err := backup.Check(ctx, p.state); err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	return nil
}

// backup returns a backup of the stores. It is made in memory, because a slow client must not delay
// the writes of the works.
func (p *parts) backup(ctx context.Context, source string) ([]byte, error) {
	var out bytes.Buffer
	err := backup.Write(ctx, &out, source, backup.Stores{State: p.state, Works: p.works})
	return out.Bytes(), err
}
