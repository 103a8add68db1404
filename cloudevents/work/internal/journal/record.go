// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Keys of records. Names have no slash, so the first slash after the prefix ends a name. Resource
// IDs may contain any character.
const (
	KeyMeta       = "meta"
	PrefixCluster = "cluster/"
	PrefixWork    = "work/" // see WorkKey
	PrefixPast    = "past/" // see PastKey

	// KeyLeader is the key of the record of the leader among replicas.
	KeyLeader = "writer"
	// PrefixInbox is the prefix of events that the leader has not handled yet, by replica and
	// number.
	PrefixInbox = "inbox/"
)

// WorkKey returns the key of a work. owner is its cluster in the store of a source, and its source
// in the store of an agent.
func WorkKey(owner, id string) string { return PrefixWork + owner + "/" + id }

// PastKey returns the key of a source's record of a removed work.
func PastKey(cluster, id string) string { return PrefixPast + cluster + "/" + id }

// ParseKey splits a key of WorkKey or PastKey.
func ParseKey(prefix, key string) (owner, id string, ok bool) {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// ErrUnknownRecord is returned for a key that this version does not write.
var ErrUnknownRecord = errors.New("unknown key: a later version or another program wrote the record")

// Load calls f with all records of a store. Its error names the record that f refused.
func Load(ctx context.Context, s Loader, f func(key string, value []byte) error) error {
	return s.Load(ctx, func(key string, value []byte) error {
		if err := f(key, value); err != nil {
			return fmt.Errorf("record %q: %w", key, err)
		}
		return nil
	})
}

// Encode returns the JSON of a record without HTML escapes, so manifests remain unchanged.
func Encode(content any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(content); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Format is the format of a store that this version writes.
const Format = 1

// Meta is the content of the record under KeyMeta.
type Meta struct {
	Format int `json:"format"`
	// Kind is "source" or "agent". Name is the source's ID or the agent's cluster. Profile is the
	// name of the wire format.
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Profile string `json:"profile"`
	// ResourceVersion is the last version that was assigned to an object. The next process
	// continues above it.
	ResourceVersion uint64 `json:"resourceVersion"`
	// Complete is whether the source's inventory is complete. Asked is whether a source of the
	// profile ManifestBundle has then requested all statuses.
	Complete bool `json:"complete,omitempty"`
	Asked    bool `json:"asked,omitempty"`
	// Synced is whether the agent has completed an initial sync. Sources are the sources that it
	// waited for; nil means all sources.
	Synced  bool     `json:"synced,omitempty"`
	Sources []string `json:"sources,omitempty"`
}

// Check returns an error for the store of another source or agent, and for another format or
// profile.
func (m *Meta) Check(want Meta) error {
	switch {
	case m.Format != want.Format:
		return fmt.Errorf("the Store has format %d, and this version reads format %d", m.Format, want.Format)
	case m.Kind != want.Kind || m.Name != want.Name:
		return fmt.Errorf("the Store belongs to %s %q, not to %s %q: each needs its own file, Name or Prefix",
			m.Kind, m.Name, want.Kind, want.Name)
	case m.Profile != want.Profile:
		return fmt.Errorf("the Store has profile %s, not %s: begin with an empty Store", m.Profile, want.Profile)
	}
	return nil
}
