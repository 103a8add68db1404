// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"io"

	"github.com/google/uuid"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/rsync/store"
)

// markerKey exists in the store of package rsync during a restore, and after an interrupted one.
const markerKey = "/restore/"

// batchBytes is the size of a batch of works.
const batchBytes = 4 << 20

var (
	// ErrNotEmpty is returned by [Restore] for a store with records.
	ErrNotEmpty = errors.New("the store is not empty, or a program uses it: stop the programs that use it, and " +
		"remove it or name another one")
	// ErrUnfinished is returned by [Check] for a store with an interrupted restore.
	ErrUnfinished = errors.New("a restore of this store has not finished: repeat it, with the same or another backup")
	errReplaced   = errors.New("another restore of this store has begun: let only one run")
)

// Check returns [ErrUnfinished] for a store with an interrupted restore. Call it before the works are
// used, and when a replica becomes the leader.
func Check(ctx context.Context, state store.Data) error {
	kv, err := state.Get(ctx, markerKey)
	if err == nil && kv.Exists() {
		return ErrUnfinished
	}
	return err
}

// Restore writes the records of a backup, which [Read] has checked, to stores that are empty, or that
// have an interrupted restore. change returns the value of a key of package rsync for the restored
// store. Restore returns [ErrNotEmpty] for others. After an error the stores cannot
// be used, see [Check], and Restore may be called again.
func Restore(
	ctx context.Context, from io.Reader, s Stores, change func(key string, value []byte) ([]byte, error),
) error {
	r := &restore{Stores: s, ctx: ctx}
	r.maxBytes, r.maxOps = store.LimitsOf(s.State)
	if err := r.begin(); err != nil {
		return err
	}
	_, err := Read(from, func(ofWork bool, key string, value []byte) error {
		if ofWork {
			return r.addWork(work.Change{Key: key, Value: append([]byte{}, value...)})
		}
		value, err := change(key, value)
		if err != nil {
			return err
		}
		return r.addState(store.Put(key, value))
	})
	if err == nil {
		err = r.flush()
	}
	if err == nil {
		err = r.txn(store.Delete(markerKey))
	}
	return err
}

type restore struct {
	Stores
	ctx              context.Context
	marker           store.KeyValue
	maxBytes, maxOps int

	ops     []store.Op
	opBytes int

	works     []work.Change
	workBytes int
}

// begin puts the marker, and removes the records of an interrupted restore.
func (r *restore) begin() (err error) {
	if r.marker, err = r.State.Get(r.ctx, markerKey); err != nil {
		return err
	}
	unfinished := r.marker.Exists()
	var works []work.Change
	err = r.Works.Load(r.ctx, func(key string, _ []byte) error {
		works = append(works, work.Change{Key: key})
		if !unfinished {
			return ErrNotEmpty
		}
		return nil
	})
	if err == nil && !unfinished {
		err = r.empty()
	}
	if err != nil {
		return err
	}
	id := uuid.New()
	if err := r.txn(store.Put(markerKey, id[:])); err != nil {
		return err
	}
	if !unfinished {
		err := r.empty() // another program may have begun to use the store, without Check
		if err != nil {
			err = errors.Join(err, r.txn(store.Delete(markerKey)))
		}
		return err
	}
	state, err := r.State.Range(r.ctx, "")
	for _, kv := range state.KVs {
		if err == nil && kv.Key != markerKey {
			err = r.addState(store.Delete(kv.Key))
		}
	}
	for _, c := range works {
		if err == nil {
			err = r.addWork(c)
		}
	}
	if err != nil {
		return err
	}
	return r.flush()
}

// empty returns ErrNotEmpty if the state has other keys than the marker.
func (r *restore) empty() error {
	state, err := r.State.Range(r.ctx, "")
	for _, kv := range state.KVs {
		if kv.Key != markerKey {
			return ErrNotEmpty
		}
	}
	return err
}

// txn executes ops if no other restore has replaced the marker.
func (r *restore) txn(ops ...store.Op) error {
	result, err := r.State.Txn(r.ctx, []store.Compare{store.Unchanged(r.marker)}, ops)
	switch {
	case err != nil:
		return err
	case !result.Succeeded:
		return errReplaced
	case ops[0].Key == markerKey && ops[0].Kind == store.OpKindPut:
		r.marker.ModRevision = result.Revision
	}
	return nil
}

func (r *restore) addState(op store.Op) error {
	size := len(op.Key) + len(op.Value)
	if len(r.ops) == r.maxOps || len(markerKey)+r.opBytes+size > r.maxBytes {
		if err := r.flushState(); err != nil {
			return err
		}
	}
	r.ops, r.opBytes = append(r.ops, op), r.opBytes+size
	return nil
}

func (r *restore) flush() error {
	if err := r.flushWorks(); err != nil {
		return err
	}
	return r.flushState()
}

func (r *restore) flushState() error {
	ops := r.ops
	r.ops, r.opBytes = nil, 0
	if len(ops) == 0 {
		return nil
	}
	return r.txn(ops...)
}

func (r *restore) addWork(c work.Change) error {
	r.works, r.workBytes = append(r.works, c), r.workBytes+len(c.Key)+len(c.Value)
	if r.workBytes < batchBytes {
		return nil
	}
	return r.flushWorks()
}

func (r *restore) flushWorks() error {
	works := r.works
	r.works, r.workBytes = nil, 0
	if len(works) == 0 {
		return nil
	}
	return r.Works.Apply(r.ctx, works)
}
