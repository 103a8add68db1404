// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package emco

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Import reads a context that EMCO's orchestrator wrote. It returns rsync.ErrNotFound if the
// context does not exist, rsync.ErrInvalidInput for an invalid ID, and errors of the store. For a
// context that the engine cannot use it returns a [*appcontext.Problem] with the key. Such a
// context is half written, has an unknown level or a value with unexpected JSON, or requires the
// approval of a certificate. If the keys of a cluster have only statuses of another context, Import
// omits the cluster. EMCO's keys do not show how many clusters an app has: the orchestrator must
// have written all of them.
//
// Import does not read EMCO's status: the context is Created.
func (b *Bridge) Import(ctx context.Context, id string) (*appcontext.AppContext, error) {
	keys, err := b.read(ctx, id)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for key, kv := range keys {
		texts[key] = string(kv.Value)
	}
	removeStatusOnly(rootOf(id), texts)
	if err := complete(rootOf(id), texts); err != nil {
		return nil, err
	}
	c, err := Decode(id, texts)
	if err != nil {
		return nil, err
	}
	return c, known(rootOf(id), texts, c)
}

func rootOf(id string) string { return "/context/" + id + "/" }

func checkID(id string) error {
	if id == "" || len(id) > appcontext.MaxName || strings.ContainsRune(id, '/') {
		return fmt.Errorf("%w: ID %q: must be 1 to 253 bytes of letters, digits and . _ - : @ +", rsync.ErrInvalidInput, id)
	}
	return nil
}

// read reads all keys of a context.
func (b *Bridge) read(ctx context.Context, id string) (map[string]store.KeyValue, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	result, err := b.keys.Range(ctx, rootOf(id))
	if err != nil {
		return nil, fmt.Errorf("read the keys of EMCO's app context %q: %w", id, err)
	}
	keys := map[string]store.KeyValue{}
	for _, kv := range result.KVs {
		keys[kv.Key] = kv
	}
	if !keys[rootOf(id)].Exists() {
		return nil, fmt.Errorf("EMCO's app context %q: %w", id, rsync.ErrNotFound)
	}
	return keys, nil
}

func problem(key, format string, args ...any) error {
	return &appcontext.Problem{Fault: appcontext.FaultBadLayout, Where: key, What: fmt.Sprintf(format, args...)}
}

// statusOnly is the value of a resource that exists only for the status of another context.
const statusOnly = `"nil"`

// clusterOf returns the prefix of the cluster that a key is below, and the rest of the key.
func clusterOf(root, key string) (cluster, rest string, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(key, root), "/", 5) // app, name, cluster, name, rest
	if len(parts) < 5 || parts[0] != "app" || parts[2] != "cluster" {
		return "", "", false
	}
	return root + strings.Join(parts[:4], "/") + "/", parts[4], true
}

// removeStatusOnly removes the keys that rsync adds for statuses of other contexts: resources, and
// clusters and apps without other keys.
func removeStatusOnly(root string, keys map[string]string) {
	added, emptied := map[string]bool{}, map[string]bool{}
	for key, value := range keys {
		if cluster, rest, ok := clusterOf(root, key); ok && value == statusOnly && isResource(rest) {
			added[key], emptied[cluster] = true, true
		}
	}
	if len(added) == 0 {
		return
	}
	for key := range keys {
		cluster, rest, _ := clusterOf(root, key)
		if parts := strings.SplitN(rest, "/", 3); parts[0] == "resource" && len(parts) == 3 {
			if added[cluster+"resource/"+parts[1]+"/"] {
				delete(keys, key)
			} else {
				delete(emptied, cluster)
			}
		}
	}
	left, without := map[string]bool{}, map[string]bool{}
	for key := range keys {
		cluster, _, ok := clusterOf(root, key)
		switch {
		case ok && emptied[cluster]:
			delete(keys, key)
			without[appOf(root, key)] = true
		case ok:
			left[appOf(root, key)] = true
		}
	}
	for key := range keys {
		if app := appOf(root, key); without[app] && !left[app] {
			delete(keys, key)
		}
	}
}

// appOf returns the name of the app that a key is below, or "".
func appOf(root, key string) string {
	rest, ok := strings.CutPrefix(key, root+"app/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// isResource reports whether a key below a cluster is the key of a resource.
func isResource(rest string) bool {
	return strings.HasPrefix(rest, "resource/") && strings.Count(rest, "/") == 2 && strings.HasSuffix(rest, "/")
}

const halfWritten = ", so the app context is half written: install it again when EMCO has written it"

// complete returns a problem if the orchestrator has not written the whole context yet.
func complete(root string, keys map[string]string) error {
	order := root + "app/instruction/order/"
	if _, ok := keys[order]; !ok {
		return problem(order, "the key is missing"+halfWritten)
	}
	placed := map[string]bool{}
	for key := range keys {
		if _, _, ok := clusterOf(root, key); ok {
			placed[appOf(root, key)] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if app := appOf(root, key); key == root+"app/"+app+"/" && !placed[app] {
			return problem(key, "the app has no clusters"+halfWritten)
		}
		cluster, rest, ok := clusterOf(root, key)
		if !ok {
			continue
		}
		if _, ok := keys[cluster]; !ok {
			return problem(cluster, "the key is missing, but there are keys below it")
		}
		if order := cluster + "resource/instruction/order/"; rest == "" {
			if _, ok := keys[order]; !ok {
				return problem(order, "the key is missing"+halfWritten)
			}
		}
	}
	return nil
}

// groupLevel is EMCO's key of the placement group of a cluster.
const groupLevel = "!@#metaGrp/"

var (
	// contextLevels and clusterLevels are below a context and a cluster, resourceLevels below a
	// resource.
	contextLevels = []string{
		"", "meta/", "status/", stopLevel, "statusappctxid/", "rsync/state/CurrentState/", "rsync/state/DesiredState/",
		"rsync/state/PendingTerminateFlag/", "rsync/AppContextEventQueue/", markerLevel, "app/instruction/order/",
		"app/instruction/dependency/",
	}
	clusterLevels = []string{
		"", "status/", "readystatus/", "resourcesready/", "reference/", groupLevel, "resource/instruction/order/",
		"resource/instruction/dependency/",
	}
	resourceLevels = []string{"", "status/", "reference/", "definition/", "readystatus/", "succeedstatus/"}
)

// known returns a problem for the first key of an unknown level, or of an app or a resource that
// the orders do not name.
func known(root string, keys map[string]string, c *appcontext.AppContext) error {
	names := map[string]bool{}
	for i := range c.Apps {
		a := &c.Apps[i]
		names[root+"app/"+a.Name+"/"] = true
		for j := range a.Clusters {
			cluster := &a.Clusters[j]
			for _, r := range cluster.Resources {
				names[root+"app/"+a.Name+"/cluster/"+cluster.String()+"/resource/"+r.Name+"+"+r.Kind+"/"] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := knownKey(root, key, keys[key], names); err != nil {
			return err
		}
	}
	return nil
}

func knownKey(root, key, value string, names map[string]bool) error {
	unknown := problem(key, "the level is not known")
	if !json.Valid([]byte(value)) {
		return problem(key, "the value is not JSON")
	}
	rest := strings.TrimPrefix(key, root)
	if slices.Contains(contextLevels, rest) {
		return nil
	}
	parts := strings.SplitN(rest, "/", 3) // app, name, rest
	if len(parts) < 3 || parts[0] != "app" {
		return unknown
	}
	if app := root + "app/" + parts[1] + "/"; !names[app] {
		return problem(key, "the order of apps does not name %q", parts[1])
	}
	if parts[2] == "" || parts[2] == "instruction/dependency/" {
		return nil
	}
	cluster, rest, ok := clusterOf(root, key)
	if !ok {
		return unknown
	}
	if slices.Contains(clusterLevels, rest) {
		return nil
	}
	parts = strings.SplitN(rest, "/", 3) // resource, name, rest
	switch {
	case len(parts) < 3 || parts[0] != "resource":
		return unknown
	case !names[cluster+"resource/"+parts[1]+"/"]:
		return problem(key, "the order of resources does not name %q", parts[1])
	case strings.HasPrefix(parts[2], "subresource/"):
		return problem(key, "approvals of certificates are not supported: "+
			"approve the request on the cluster, and remove the key")
	case !slices.Contains(resourceLevels, parts[2]):
		return unknown
	}
	return nil
}
