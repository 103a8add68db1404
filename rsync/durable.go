// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

// The keys are described in doc_durable.go.
const (
	contextPrefix    = "/context/"
	activePrefix     = "/activecontext/"
	specPrefix       = "/rsync/spec/"
	indexPrefix      = "/rsync/index/"
	stopPrefix       = "/rsync/stop/"
	enginePrefix     = "/rsync/engine/"
	inventoryPrefix  = "/rsync/inventory/"
	remnantPrefix    = "/rsync/detached/"
	unfinishedPrefix = "/rsync/unfinished/"
)

func contextKey(id string) string  { return contextPrefix + id + "/" }
func headKey(id string) string     { return contextKey(id) }
func stateKey(id string) string    { return contextKey(id) + "state/" }
func queueKey(id string) string    { return contextKey(id) + "queue/" }
func detachedKey(id string) string { return queueKey(id) + "detached/" }
func linksKey(id string) string    { return contextKey(id) + "updates/" }
func activeKey(id string) string   { return activePrefix + id + "/" }
func specsKey(id string) string    { return specPrefix + id + "/" }
func indexKey(id string) string    { return indexPrefix + id + "/" }
func stopKey(id string) string     { return stopPrefix + id + "/" }

func unfinishedKey(id, generation string) string {
	return unfinishedPrefix + id + "/" + generation + "/"
}

func engineKey(session string) string { return enginePrefix + session + "/" }

// elementKey has a number of fixed length, so the order of the keys is the order of the queue.
func elementKey(id string, seq uint64) string { return fmt.Sprintf("%s%016x/", queueKey(id), seq) }

func rolloutKey(id string, seq uint64) string {
	return fmt.Sprintf("%srollout/%016x/", contextKey(id), seq)
}

func idempotencyKey(id, key string) string {
	return contextKey(id) + "idempotency/" + url.PathEscape(key) + "/"
}

func statusKey(id, app string, cluster appcontext.ClusterID) string {
	return contextKey(id) + "status/" + app + "/" + cluster.String() + "/"
}

func observedKey(id string) string { return contextKey(id) + "observed/" }

func observationKey(id, app string, cluster appcontext.ClusterID) string {
	return observedKey(id) + app + "/" + cluster.String() + "/"
}

func specKey(id, generation, app string, cluster appcontext.ClusterID) string {
	return specsKey(id) + generation + "/" + app + "/" + cluster.String() + "/"
}

func inventoryClusterKey(c appcontext.ClusterID) string { return inventoryPrefix + c.String() + "/" }

func inventoryKey(c appcontext.ClusterID, id, generation, app string) string {
	return inventoryClusterKey(c) + id + "/" + generation + "/" + app + "/"
}

func remnantsKey(c appcontext.ClusterID) string { return remnantPrefix + c.String() + "/" }

func remnantKey(c appcontext.ClusterID, id string) string { return remnantsKey(c) + id + "/" }

// specPartKey returns the key of part n of the manifests. The first part is at specKey.
func specPartKey(first string, n int) string {
	if n == 0 {
		return first
	}
	return fmt.Sprintf("%s%04x/", first, n)
}

func idOf(prefix, key string) string {
	return strings.TrimSuffix(strings.TrimPrefix(key, prefix), "/")
}

// head describes a context without its manifests.
type head struct {
	ID string `json:"id"`
	// Generation is in the keys of the manifests, which are written before the head.
	Generation string          `json:"generation"`
	Meta       appcontext.Meta `json:"meta"`
	Apps       []headApp       `json:"apps"`
	// Remnant is set if the context is a remnant, which Detach has created.
	Remnant *remnant `json:"remnant,omitempty"`
}

type headApp struct {
	Name      string                  `json:"name"`
	DependsOn []appcontext.Dependency `json:"dependsOn,omitempty"`
	Clusters  []appcontext.ClusterID  `json:"clusters,omitempty"`
}

// record is the state of a context. Only its owner changes it, or a session that thereby becomes
// the owner.
type record struct {
	State State `json:"state"`
	// Owner is the session that owns the context, or empty.
	Owner string `json:"owner,omitempty"`
	// Writer is the session that wrote this value. It only documents the history in the store.
	Writer string `json:"writer,omitempty"`
	// Current is the element in progress, 0 for none.
	Current uint64 `json:"current,omitempty"`
	// Generation is the Generation of the head. Holds is whether the context holds its objects:
	// other contexts do not delete them.
	Generation string `json:"generation,omitempty"`
	Holds      bool   `json:"holds,omitempty"`
	// Previous has the contexts that the last update of this one replaces. Whole is whether that
	// update applies everything, because the state of their objects on the clusters is unknown.
	Previous []string `json:"previous,omitempty"`
	Whole    bool     `json:"whole,omitempty"`
	// Fresh is whether the context had no objects when the event in progress began.
	Fresh bool `json:"fresh,omitempty"`
	// Partial is whether the context may be absent on clusters: see storedStatus.
	Partial bool `json:"partial,omitempty"`
	// Transitions counts the changes of State, and Version the changes of the record. No two values
	// of the record are equal.
	Transitions uint64 `json:"transitions"`
	Version     uint64 `json:"version"`
}

// tail is the end of a queue. Calls that queue events change it, so it is separate from the record.
type tail struct {
	Next uint64 `json:"next"`
}

// image is the stored state of a context at one revision, without its manifests.
type image struct {
	found    bool // the head was read
	head     head
	record   record
	stateKV  store.KeyValue
	tail     tail
	tailKV   store.KeyValue
	elements []*Element
	statuses []ClusterStatus
	absent   map[taskKey]bool // the apps with Absent in their status
	observed []observed
	revision int64

	detached   detachedClusters
	detachedKV store.KeyValue
}

// parseKeys decodes some of the keys of a context.
func parseKeys(id string, result store.RangeResult) (*image, error) {
	img := &image{
		revision: result.Revision, detachedKV: store.KeyValue{Key: detachedKey(id)}, absent: map[taskKey]bool{},
	}
	for _, kv := range result.KVs {
		rest := strings.TrimPrefix(kv.Key, contextKey(id))
		part, _, _ := strings.Cut(rest, "/")
		var err error
		switch {
		case rest == "":
			img.found = true
			err = json.Unmarshal(kv.Value, &img.head)
		case part == "state":
			img.stateKV = kv
			err = json.Unmarshal(kv.Value, &img.record)
		case rest == "queue/":
			img.tailKV = kv
			err = json.Unmarshal(kv.Value, &img.tail)
		case rest == "queue/detached/":
			img.detachedKV = kv
			err = json.Unmarshal(kv.Value, &img.detached)
		case part == "queue":
			e := &Element{}
			err = json.Unmarshal(kv.Value, e)
			img.elements = append(img.elements, e)
		case part == "status":
			var s storedStatus
			err = json.Unmarshal(kv.Value, &s)
			img.statuses = append(img.statuses, s.ClusterStatus)
			if s.Absent {
				img.absent[taskKey{s.App, s.Cluster}] = true
			}
		case part == "observed":
			var o observed
			err = json.Unmarshal(kv.Value, &o)
			img.observed = append(img.observed, o)
		}
		if err != nil {
			return nil, &brokenError{kv.Key}
		}
	}
	return img, nil
}

// encode returns the JSON of a value. It never fails, because all values have types of this
// package.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return []byte(strconv.Quote(err.Error()))
	}
	return text
}

// decode decodes a stored value. It returns a brokenError for a value that cannot be decoded.
func decode[T any](kv store.KeyValue) (value T, err error) {
	if json.Unmarshal(kv.Value, &value) != nil {
		err = &brokenError{kv.Key}
	}
	return value, err
}

// get reads and decodes the value of a key. The value of a missing key is zero.
func get[T any](ctx context.Context, e *Engine, key string) (kv store.KeyValue, value T, err error) {
	if kv, err = e.store.Get(ctx, key); err == nil && kv.Exists() {
		value, err = decode[T](kv)
	}
	return kv, value, err
}

// transaction has conditions and operations for a transaction of the store.
type transaction struct {
	compares []store.Compare
	ops      []store.Op
}

func (t *transaction) add(more transaction) {
	t.compares = append(t.compares, more.compares...)
	t.ops = append(t.ops, more.ops...)
}

func putElement(id string, e *Element) store.Op {
	return store.Put(elementKey(id, e.Seq), encode(e))
}

func putStatus(id string, s *storedStatus) store.Op {
	return store.Put(statusKey(id, s.App, s.Cluster), encode(s))
}

// putRecord returns the writes of the record and of the index, which List reads. The index has no
// remnants.
func (h *head) putRecord(r *record) []store.Op {
	ops := []store.Op{store.Put(stateKey(h.ID), encode(r))}
	if h.Remnant == nil {
		ops = append(ops, store.Put(indexKey(h.ID), encode(Summary{ID: h.ID, State: r.State})))
	}
	return ops
}

// putActive returns the write of the active record. Each transaction that queues a pending event
// includes it, so a watch on active records reports all events. EMCO has the same record.
func putActive(id string) store.Op { return store.Put(activeKey(id), encode(id)) }
