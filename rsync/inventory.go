// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

// token represents an object, a namespace or an API group in the inventory: 63 bits of a hash, and
// a last bit. The last bit is set in the token of the objects inside a namespace or an API group. A
// CustomResourceDefinition provides the API group of its resources.
type token uint64

const (
	namespaceKind  = "Namespace"
	definitionKind = "CustomResourceDefinition"
)

func tokenOf(parts ...string) token {
	sum := sha256.Sum256([]byte(strings.Join(parts, "/")))
	return token(binary.BigEndian.Uint64(sum[:]) &^ 1)
}

func objectToken(o appcontext.Object) token { return tokenOf(o.Group, o.Kind, o.Namespace, o.Name) }

// inside returns the token of the objects inside a namespace or a group.
func (t token) inside() token { return t | 1 }

func namespaceToken(name string) token { return tokenOf("", namespaceKind, "", name) }
func groupToken(group string) token    { return tokenOf("group", group) }

// provides returns the token of the namespace or group that is deleted with an object.
func provides(o appcontext.Object) (token, bool) {
	switch {
	case o.Kind == namespaceKind && o.Group == "":
		return namespaceToken(o.Name), true
	case o.Kind == definitionKind:
		_, group, ok := strings.Cut(o.Name, ".") // its name is <plural>.<group>
		return groupToken(group), ok
	}
	return 0, false
}

// isEnd reports whether a resource exists only for a time: a pre-delete or post-delete hook, or a
// hook that is deleted after it has succeeded.
func isEnd(r *appcontext.Resource) bool {
	return r.Hook == appcontext.HookPreDelete || r.Hook == appcontext.HookPostDelete ||
		r.Has(appcontext.HookDeletePolicySucceeded)
}

// inventoryEntry returns the inventory's value for an app on a cluster: its tokens, in order, with
// 8 bytes each.
func inventoryEntry(resources []appcontext.Resource) []byte {
	var tokens []token
	for i := range resources {
		r := &resources[i]
		if isEnd(r) {
			continue
		}
		tokens = append(tokens, objectToken(r.Object))
		if r.Namespace != "" {
			tokens = append(tokens, namespaceToken(r.Namespace).inside())
		}
		if r.Group != "" {
			tokens = append(tokens, groupToken(r.Group).inside())
		}
		if t, ok := provides(r.Object); ok && r.Kind == definitionKind {
			tokens = append(tokens, t)
		}
	}
	slices.Sort(tokens)
	tokens = slices.Compact(tokens)
	out := make([]byte, 0, 8*len(tokens))
	for _, t := range tokens {
		out = binary.BigEndian.AppendUint64(out, uint64(t))
	}
	return out
}

func inventoryOps(id, generation, app string, c *appcontext.Cluster) []store.Op {
	return specOps(inventoryKey(c.ClusterID, id, generation, app), inventoryEntry(c.Resources))
}

func inventoryDeletes(h *head) []store.Op {
	var out []store.Op
	for _, a := range h.Apps {
		for _, c := range a.Clusters {
			out = append(out, store.DeletePrefix(inventoryKey(c, h.ID, h.Generation, a.Name)))
		}
	}
	return out
}

// neighbor is an app of another context on the same cluster. It has tokens in common with a task:
// objects, or the namespaces and API groups of objects.
type neighbor struct {
	cluster             appcontext.ClusterID
	id, generation, app string
	common              map[token]bool
}

// neighbors reads the apps of other contexts that have some of the tokens on a cluster.
func (e *Engine) neighbors(
	ctx context.Context, id string, c appcontext.ClusterID, tokens map[token]bool,
) ([]neighbor, error) {
	prefix := inventoryClusterKey(c)
	result, err := e.store.Range(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var filter [1024]bool // rejects most tokens faster than the map
	for t := range tokens {
		filter[t>>1%1024] = true
	}
	var out []neighbor
	for _, kv := range result.KVs {
		var n *neighbor
		for text := kv.Value; len(text) >= 8; text = text[8:] {
			t := token(binary.BigEndian.Uint64(text))
			if !filter[t>>1%1024] || !tokens[t] {
				continue
			}
			if n == nil {
				names := strings.Split(strings.TrimPrefix(kv.Key, prefix), "/")
				if len(names) < 3 || names[0] == id {
					break
				}
				out = append(out, neighbor{c, names[0], names[1], names[2], map[token]bool{}})
				n = &out[len(out)-1]
			}
			n.common[t] = true
		}
	}
	return out, nil
}

// keys returns a key for the context on the cluster, and a key for the app there. Incarnations of a
// context with the same ID have different keys.
func (n *neighbor) keys() [2]string {
	key := n.id + "/" + n.generation + "/" + n.cluster.String()
	return [2]string{key, key + "/" + n.app}
}

// Held is an object that a context holds on a cluster.
type Held struct {
	Object            appcontext.Object
	AppContextID, App string
}

// Inventory returns the objects that contexts hold on a cluster, ordered by object and context. A
// context holds its objects from the begin of an Instantiate or an Update. It releases them when a
// Terminate or an UpdateDelete begins, or when the cluster is detached. Pre-delete and post-delete
// hooks and hooks with the policy hook-succeeded are not included. If a context had no objects
// before a rollout, it holds the objects of each cluster from the begin of the rollout on that
// cluster.
func (e *Engine) Inventory(ctx context.Context, cluster appcontext.ClusterID) ([]Held, error) {
	prefix := inventoryClusterKey(cluster)
	result, err := e.store.Range(ctx, prefix)
	if err != nil {
		return nil, err
	}
	out := []Held{}
	for _, kv := range result.KVs {
		names := strings.Split(strings.TrimPrefix(kv.Key, prefix), "/")
		if len(names) != 4 { // a later part of an entry
			continue
		}
		n := neighbor{cluster: cluster, id: names[0], generation: names[1], app: names[2]}
		r, err := e.recordOf(ctx, &n)
		if err != nil {
			return nil, err
		}
		if !r.Holds {
			continue
		}
		resources, err := e.resourcesOf(ctx, &n)
		if err != nil {
			return nil, err
		}
		for i := range resources {
			if !isEnd(&resources[i]) {
				out = append(out, Held{resources[i].Object, n.id, n.app})
			}
		}
	}
	slices.SortFunc(out, func(a, b Held) int {
		return cmp.Or(a.Object.Compare(b.Object), cmp.Compare(a.AppContextID, b.AppContextID))
	})
	return out, nil
}

// recordOf reads the record of a neighbor. The record is empty if that context was deleted. Holds
// is false for a cluster that is detached from the context, or on which the app is absent.
func (e *Engine) recordOf(ctx context.Context, n *neighbor) (record, error) {
	_, r, err := e.stateOf(ctx, n.id)
	if err != nil || r.Generation != n.generation {
		return record{}, err
	}
	if r.Holds {
		_, detached, err := e.detachedOf(ctx, n.id)
		if err != nil {
			return record{}, err
		}
		r.Holds = !detached.has(n.cluster)
	}
	if r.Holds && r.Partial {
		absent, _, err := e.absentOn(ctx, n, &r)
		if err != nil {
			return record{}, err
		}
		r.Holds = !absent
	}
	return r, nil
}

func (e *Engine) resourcesOf(ctx context.Context, n *neighbor) ([]appcontext.Resource, error) {
	key := specKey(n.id, n.generation, n.app, n.cluster)
	result, err := e.store.Range(ctx, key)
	if err != nil {
		return nil, err
	}
	var parts [][]byte
	for _, kv := range result.KVs {
		parts = append(parts, kv.Value)
	}
	return decode[[]appcontext.Resource](store.KeyValue{Key: key, Value: bytes.Join(parts, nil)})
}

func (n *neighbor) String() string { return fmt.Sprintf("app %s of app context %s", n.app, n.id) }
