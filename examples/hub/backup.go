// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/hub"
	"github.com/spokewire/sdk-go/examples/internal/backup"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/internal/atomicfile"
)

const backupUsage = `Usage: hub backup --out FILE [flags]

Writes a backup of the store of a running hub to a file: documents, revisions, works and tokens. Only
its owner may read the file, because it has Secrets. Replaces an existing file when the backup is
complete. Back up the folder of --certs too: it is not in the file.

  --out FILE  the file
  --api URL   the address of the hub's --listen (default http://127.0.0.1:8080)
  --help      show this help
`

const restoreUsage = `Usage: hub restore [flags] FILE

Writes a backup to an empty store, which may be of another kind than the store of the backup. Stop the
hub before, and start it again with the same --source. After an interrupted restore, no hub starts
with the store until the command was repeated.

  --store DIR  the store as in hub --help: a folder, or a database with postgres://USER@HOST/DATABASE
               (default hub-data)
  --help       show this help
`

func backupStore(_ context.Context, args []string, stdout, stderr io.Writer) int {
	parse := func(args []string) (o tokenOptions, err error) {
		flags, file := o.flags("hub backup"), ""
		flags.StringVar(&file, "out", "", "")
		o.method, o.path = http.MethodPost, "/api/v1/backup"
		o.print = func(w io.Writer, content []byte) error { return save(w, file, content) }
		if err = flags.Parse(args); err == nil && file == "" {
			err = errors.New("--out is required: the file of the backup")
		}
		return o, err
	}
	return callAPI("hub backup", backupUsage, parse, args, stdout, stderr)
}

// save checks a backup and writes it to a file.
func save(w io.Writer, file string, content []byte) error {
	if _, err := backup.Read(bytes.NewReader(content), nil); err != nil {
		return fmt.Errorf("--api: %w", err)
	}
	if err := atomicfile.Write(file, content, 0o600); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return printed("created  "+file)(w, nil)
}

type restoreOptions struct {
	options
	file string
}

func restoreStore(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[restoreOptions]{Name: "hub restore", Usage: restoreUsage, Parse: parseRestore}
	return p.Run(args, stdout, stderr, func(o restoreOptions) error {
		h, err := o.restore(ctx)
		if err == nil {
			_, err = fmt.Fprintf(stdout, "restored %s: the backup of %s, of the hub with --source %s\n",
				o.Store, h.Created.Format(time.RFC3339), h.Source)
		}
		return err
	})
}

func parseRestore(args []string) (o restoreOptions, err error) {
	flags := apiFlags{command.NewFlags("hub restore")}
	flags.StringVar(&o.Store, "store", "hub-data", "")
	o.file, err = flags.one(args, "the file of a backup")
	return o, cmp.Or(err, flags.NotEmpty("store"), o.validateURLs())
}

func (o restoreOptions) restore(ctx context.Context) (h backup.Header, err error) {
	file, err := os.Open(o.file)
	if err != nil {
		return h, err
	}
	defer func() { _ = file.Close() }()
	if h, err = backup.Read(file, nil); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return h, fmt.Errorf("%s: %w", o.file, err)
	}
	p := &parts{}
	if o.Source = h.Source; err == nil {
		err = p.openStores(ctx, o.options)
	}
	if err == nil {
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
	p.backups.Lock() // one at a time
	defer p.backups.Unlock()
	var out bytes.Buffer
	err := backup.Write(ctx, &out, source, backup.Stores{State: p.state, Works: p.works})
	return out.Bytes(), err
}
