// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/cloudevents/work/etcdstore"
	"github.com/spokewire/sdk-go/cloudevents/work/pgstore"
)

// updated is the part of the works that the hub's update phase changes: 1 of 100.
const updated = 100

// storeKind returns the kind of the store of --store, or "" if there is no such kind.
func storeKind(store string) string {
	scheme, _, isURL := strings.Cut(store, "://")
	switch {
	case store == "memory", isURL && (scheme == "postgres" || scheme == "etcd"):
		return scheme
	case isURL:
		return ""
	}
	return "file"
}

// openStore opens the store of --store for a run, and returns the function that closes it.
func openStore(ctx context.Context, store, id string) (work.Store, func() error, error) {
	switch storeKind(store) {
	case "file":
		s, err := boltstore.Open(store, boltstore.Options{})
		return s, s.Close, err
	case "postgres":
		s, err := pgstore.Open(ctx, pgstore.Options{ConnString: store, Name: id})
		return s, s.Close, err
	case "etcd":
		endpoints := strings.Split(strings.TrimPrefix(store, "etcd://"), ",")
		s, err := etcdstore.Open(ctx, etcdstore.Options{Endpoints: endpoints, Prefix: id})
		return s, s.Close, err
	}
	// Replicas have no use for this store, so it must not be a work.SharedStore.
	return struct{ work.Store }{work.NewMemoryStore()}, func() error { return nil }, nil
}

// answer is the answer of a hub process to a command.
type answer struct{ Text, Error string }

// runHub is the hub process: it executes the commands in stdin, one in a line, until stdin ends. It
// writes an answer for each.
func runHub(ctx context.Context, o options, stdin io.Reader, stdout io.Writer) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	store, closeStore, err := openStore(ctx, o.store, o.hub)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	b := &bench{options: o, out: &text, state: state, fleet: newFleet(o, o.hub, fail)}
	b.fleet.meter.incoming = true
	if err = b.serve(); err == nil {
		err = b.fleet.addSource(store)
	}
	if err != nil {
		b.fleet.stop()
		return errors.Join(err, closeStore())
	}
	commands := json.NewDecoder(stdin)
	for err == nil {
		var command string
		if err = commands.Decode(&command); err != nil {
			break
		}
		var reply answer
		if failure := b.execute(ctx, command); failure != nil {
			reply.Error = fmt.Sprintf("hub: %s: %v", command, failure)
		}
		reply.Text = text.String()
		text.Reset()
		err = json.NewEncoder(stdout).Encode(reply)
	}
	b.fleet.stop()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, closeStore())
}

// The commands of a hub process.
const (
	toStart   = "start"   // returns when the source is connected
	toDeclare = "declare" // declares that the inventory is complete
	toServe   = "serve"   // creates a work, as the leader
	toReport  = "report"  // reports the state of the process
	toCreate  = "create"  // the phases
	toUpdate  = "update"
	toResync  = "resync"
	toIdle    = "idle"
	toClose   = "close" // the gRPC server of --broker grpc
	toOpen    = "open"
)

func (b *bench) execute(ctx context.Context, command string) error {
	switch command {
	case toStart:
		return b.fleet.startSource(ctx)
	case toDeclare:
		return b.fleet.source.InventoryComplete(ctx)
	case toServe:
		return b.fleet.create(ctx, "serve-"+rand.String(8)+"-", 0)
	case toReport:
		_, err := io.WriteString(b.out, b.state())
		return err
	case toCreate:
		return b.create(ctx)
	case toUpdate:
		return b.updateSome(ctx, max(1, b.options.works/updated))
	case toResync:
		return b.resync(ctx)
	case toIdle:
		return b.idle(ctx)
	case toClose:
		b.broker.kill()
		return nil
	case toOpen:
		return b.broker.start()
	}
	return errors.New("unknown command")
}

// idle measures the processor time without traffic, except for heartbeats.
func (b *bench) idle(ctx context.Context) error {
	return b.phase("idle", "", func(p *phase) error {
		begin, used := time.Now(), cpu()
		if err := pause(ctx, b.options.duration); err != nil {
			return err
		}
		used, p.took = cpu()-used, time.Since(begin)
		p.facts = append(p.facts, fmt.Sprintf("hub: %.2f %% of a core", 100*used.Seconds()/p.took.Seconds()))
		return nil
	})
}
