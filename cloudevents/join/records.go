// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Keys of records.
const (
	tokenPrefix   = "tokens/"
	clusterPrefix = "clusters/"
)

// clusterForm is the form of a cluster's name: a label of DNS, because it is a namespace on hubs.
var clusterForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// grant is the record of a token.
type grant struct {
	Cluster string    `json:"cluster"`
	Secret  string    `json:"secret"` // its digest
	Expires time.Time `json:"expires"`
	Uses    int       `json:"uses"` // that are left
	// Keys are the hashes of the public keys of its certificates.
	Keys []string `json:"keys,omitempty"`
}

// membership is the record of a cluster. Its incarnations are numbered from 1. The zero value is a
// cluster that has certificates of another origin, if any: they count as incarnation 0.
type membership struct {
	// Last is the last incarnation. First is the first one that is not revoked.
	Last  int64 `json:"last"`
	First int64 `json:"first"`
}

// member reports whether the cluster has joined and is not revoked.
func (m membership) member() bool { return m.Last >= max(m.First, 1) }

// joined returns the record after a join.
func (m membership) joined() membership {
	m.Last = max(m.Last, m.First, 1)
	return m
}

// clusterOf returns the cluster of a common name.
func clusterOf(name string) string {
	if rest, ok := strings.CutPrefix(name, "system:open-cluster-management:"); ok {
		name, _, _ = strings.Cut(rest, ":")
	}
	return name
}

func nameIn(prefix, key string) (string, bool) { return strings.CutPrefix(key, prefix) }

func get[T any](ctx context.Context, store Store, key string) (Record, T, error) {
	r, err := store.Get(ctx, key)
	if err != nil || r.Version == 0 {
		return Record{Key: key}, *new(T), err
	}
	value, err := decode[T](r)
	return r, value, err
}

func decode[T any](r Record) (value T, err error) {
	if err = json.Unmarshal(r.Value, &value); err != nil {
		err = fmt.Errorf("the store has an invalid record %q: %w", r.Key, err)
	}
	return value, err
}

// put replaces a record that was read.
func put(ctx context.Context, store Store, old Record, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return store.Put(ctx, Record{Key: old.Key, Value: content, Version: old.Version})
}
