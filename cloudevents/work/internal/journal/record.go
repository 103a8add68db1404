// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Keys of records. Names have no slash, so the first one after the prefix ends a name; resource IDs may be anything.
const (
	KeyMeta       = "meta"
	PrefixCluster = "cluster/"
	PrefixWork    = "work/" // see WorkKey
	PrefixPast    = "past/" // see PastKey

	// KeyLeader has the record of the leader among replicas.
	KeyLeader = "writer"
	// PrefixInbox is for events that the leader has not handled yet, by replica and number.
	PrefixInbox = "inbox/"
)

// WorkKey returns the key of a work; owner is the other side of it, a cluster or a source.
func WorkKey(owner, id string) string { return PrefixWork + owner + "/" + id }

// PastKey returns the key of what a source knows of a work that is gone.
func PastKey(cluster, id string) string { return PrefixPast + cluster + "/" + id }

// ParseKey splits what WorkKey or PastKey has made.
func ParseKey(prefix, key string) (owner, id string, ok bool) {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// ErrUnknownRecord is for a key that this version does not write.
var ErrUnknownRecord = errors.New("a later version wrote it, or something else than a source or an agent")

// Encode leaves the manifests as they are: encoding/json would escape them for HTML.
func Encode(content any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(content); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Format is that of a store that this version writes.
const Format = 1

// Meta is the content of the record under KeyMeta.
type Meta struct {
	Format int `json:"format"`
	// Kind is "source" or "agent", Name the source's ID or the agent's cluster, Profile the name of the wire format.
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Profile string `json:"profile"`
	// ResourceVersion is the last that was given to an object: the next process goes on above it.
	ResourceVersion uint64 `json:"resourceVersion"`
	// Complete is the source's inventory, Asked what goes with it in a strict profile.
	Complete bool `json:"complete,omitempty"`
	Asked    bool `json:"asked,omitempty"`
	// Synced is whether the agent has completed an initial sync, Sources are those that it waited for; nil are all.
	Synced  bool     `json:"synced,omitempty"`
	Sources []string `json:"sources,omitempty"`
}

// Check refuses the store of another source or agent.
func (m *Meta) Check(want Meta) error {
	switch {
	case m.Format != want.Format:
		return fmt.Errorf("the store has format %d, and this version reads format %d", m.Format, want.Format)
	case m.Kind != want.Kind || m.Name != want.Name:
		return fmt.Errorf("the store is that of %s %q, not of %s %q: give each its own", m.Kind, m.Name, want.Kind, want.Name)
	case m.Profile != want.Profile:
		return fmt.Errorf("the store was written with profile %s, not %s: their versions differ, begin with an empty one",
			m.Profile, want.Profile)
	}
	return nil
}
