// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

const (
	// RecordPrefix is the prefix of the keys that change with the revisions of applications.
	RecordPrefix   = "/hub/rollout/"
	revisionPrefix = "/hub/revision/"
)

// record is the stored state of an application.
type record struct {
	// Next is the number of the next revision.
	Next int `json:"next"`
	// Wanted is the wanted revision, 0 for none.
	Wanted int `json:"wanted"`
	// Rollout is the hash of its rollout, or empty. Attempt counts the starts of rollouts: events
	// of one attempt have the same idempotency keys, so a failed rollout does not start again by
	// itself.
	Rollout string `json:"rollout,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	// Reached is whether only the wanted revision is on clusters, and no event was queued since.
	Reached bool `json:"reached,omitempty"`
	// Revisions are in the order of their numbers.
	Revisions []Revision `json:"revisions,omitempty"`
}

// Revision is a revision of an application.
type Revision struct {
	Number int    `json:"number"`
	Digest string `json:"digest"`
	// Content is the digest of the source, which does not depend on the clusters.
	Content  string    `json:"content"`
	Cause    string    `json:"cause"`
	Created  time.Time `json:"created"`
	By       string    `json:"by,omitempty"`
	Clusters int       `json:"clusters"`
}

// Source is the source of a revision.
type Source struct {
	// Document is the document of the application, in JSON.
	Document json.RawMessage `json:"document"`
	// Values are the values of the hub's cluster that its templates have read.
	Values map[string]string `json:"values,omitempty"`
}

// SourceOf returns the source of a rendering.
func SourceOf(r *render.Rendering) *Source { return &Source{r.Document, r.Values} }

// Digest returns a hash that identifies the source: the Content of its revisions.
func (s *Source) Digest() string { return digest(s) }

func digest(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return "" // impossible: documents are valid JSON
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// Before returns the newest revision with another source before a revision, or 0.
func Before(revisions []Revision, number int) int {
	at := slices.IndexFunc(revisions, func(r Revision) bool { return r.Number == number })
	for i := at - 1; i >= 0; i-- {
		if revisions[i].Content != revisions[at].Content {
			return revisions[i].Number
		}
	}
	return 0
}

func (r *record) find(number int) *Revision {
	for i := range r.Revisions {
		if r.Revisions[i].Number == number {
			return &r.Revisions[i]
		}
	}
	return nil
}

// key returns the idempotency key of the rollout from a context, or "" without a rollout.
func (r *record) key(from string) string {
	if r.Rollout == "" {
		return ""
	}
	return fmt.Sprintf("%d from %s", r.Attempt, from)
}

// attempt counts an attempt if the rollout has changed or must start again, and reports that.
func (r *record) attempt(rollout *rsync.Rollout, again bool) bool {
	hash := ""
	if rollout != nil {
		hash = digest(rollout)
	}
	changed := again || r.Rollout != hash
	if changed {
		r.Attempt++
	}
	r.Rollout = hash
	return changed
}

// ContextID returns the ID of the AppContext of a revision.
func ContextID(application string, number int) string {
	return application + "." + strconv.Itoa(number)
}

// ParseContextID parses a ContextID. It reports whether the ID is valid.
func ParseContextID(id string) (application string, number int, ok bool) {
	at := strings.LastIndexByte(id, '.')
	if at < 0 {
		return "", 0, false
	}
	number, err := strconv.Atoi(id[at+1:])
	return id[:at], number, err == nil
}

func recordKey(application string) string { return RecordPrefix + application + "/" }

func sourceKey(application string, number int) string {
	return fmt.Sprintf("%s%s/%d/", revisionPrefix, application, number)
}

// load reads the record of an application; a missing record is empty.
func (m *Manager) load(ctx context.Context, application string) (*record, error) {
	kv, err := m.store.Get(ctx, recordKey(application))
	if err != nil {
		return nil, err
	}
	return parse(kv)
}

func parse(kv store.KeyValue) (*record, error) {
	r := &record{Next: 1}
	if kv.Exists() {
		if err := json.Unmarshal(kv.Value, r); err != nil {
			return nil, fmt.Errorf("the value of %s is damaged: %w", kv.Key, err)
		}
	}
	return r, nil
}

// save writes a record, and other operations, in one transaction.
func (m *Manager) save(ctx context.Context, application string, r *record, ops ...store.Op) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = m.store.Txn(ctx, nil, append(ops, store.Put(recordKey(application), data)))
	return err
}

// Applications returns the applications with a stored record, with the digest of the rendering that
// is on their clusters. It is empty while events may be in progress.
func (m *Manager) Applications(ctx context.Context) (map[string]string, error) {
	result, err := m.store.Range(ctx, RecordPrefix)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, kv := range result.KVs {
		r, err := parse(kv)
		if err != nil {
			return nil, err
		}
		digest := ""
		if known := r.find(r.Wanted); known != nil && r.Reached {
			digest = known.Digest
		}
		out[strings.TrimSuffix(strings.TrimPrefix(kv.Key, RecordPrefix), "/")] = digest
	}
	return out, nil
}

// Revisions returns the stored revisions of an application, the oldest first, and the wanted one.
func (m *Manager) Revisions(ctx context.Context, application string) (revisions []Revision, wanted int, err error) {
	r, err := m.load(ctx, application)
	if err != nil {
		return nil, 0, err
	}
	return r.Revisions, r.Wanted, nil
}

// Live returns the revisions of an application that may have objects on clusters.
func (m *Manager) Live(ctx context.Context, application string) ([]*appcontext.AppContext, error) {
	r, err := m.load(ctx, application)
	if err != nil {
		return nil, err
	}
	var out []*appcontext.AppContext
	for _, known := range r.Revisions {
		id := ContextID(application, known.Number)
		status, err := m.engine.Status(ctx, id)
		if errors.Is(err, rsync.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		busy := slices.ContainsFunc(status.Queue, func(e rsync.Element) bool { return !e.Status.Final() })
		if !busy && !(revisionState{known.Number, status.State}).live() {
			continue
		}
		c, err := m.engine.AppContext(ctx, id)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// Source returns the source of a revision, or an rsync.ErrNotFound.
func (m *Manager) Source(ctx context.Context, application string, number int) (*Source, error) {
	kv, err := m.store.Get(ctx, sourceKey(application, number))
	if err != nil {
		return nil, err
	}
	if !kv.Exists() {
		return nil, fmt.Errorf("revision %d of the application %s: %w", number, application, rsync.ErrNotFound)
	}
	var s Source
	return &s, json.Unmarshal(kv.Value, &s)
}
