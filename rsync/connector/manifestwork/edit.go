// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/yamldoc"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

// workName returns a readable DNS label that differs for each pair of context and app.
func workName(manager, contextID, app string) string {
	const longest, hashed = 63, 10
	sum := sha256.Sum256([]byte(manager + "\x00" + contextID + "\x00" + app))
	hash := hex.EncodeToString(sum[:hashed])
	readable := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, app)
	readable = readable[:min(len(readable), longest-len(hash)-1)]
	if readable = strings.Trim(readable, "-"); readable == "" {
		return "app-" + hash
	}
	return readable + "-" + hash
}

// Name returns the name of the work for the new objects of an app.
func (c *Connectors) Name(appContextID, app string) string {
	return workName(c.options.Manager, appContextID, app)
}

// entry is an object with its manifest in JSON.
type entry struct {
	object appcontext.Object
	raw    []byte
}

// entriesOf checks and converts the manifests of a batch.
func entriesOf(resources []appcontext.Resource) ([]entry, error) {
	out := make([]entry, len(resources))
	for i := range resources {
		r := &resources[i]
		object, err := appcontext.ParseObject(r.Manifest)
		if err != nil {
			return nil, driver.Fault(connector.ErrTerminal, r.Object, "%w", err)
		}
		if object != r.Object {
			return nil, driver.Fault(connector.ErrTerminal, r.Object, "the manifest has another object")
		}
		raw := r.Manifest
		if !json.Valid(raw) { // YAML may begin as JSON does
			if raw, err = yamldoc.JSON(raw); err != nil {
				return nil, driver.Fault(connector.ErrTerminal, r.Object, "the manifest cannot be converted to JSON")
			}
		}
		out[i] = entry{object, raw}
	}
	return out, nil
}

// objectsOf returns the objects of a work's manifests, without a kind for a broken manifest.
func objectsOf(w *workv1.ManifestWork) []appcontext.Object {
	out := make([]appcontext.Object, len(w.Spec.Workload.Manifests))
	for i := range out {
		if o, err := appcontext.ParseObject(w.Spec.Workload.Manifests[i].Raw); err == nil {
			out[i] = o
		}
	}
	return out
}

// put returns a work with the entries, or w itself if nothing changes. New objects are at the end.
func put(w *workv1.ManifestWork, entries []entry, o *Options) *workv1.ManifestWork {
	next := w.DeepCopy()
	at := map[appcontext.Object]int{}
	for i, object := range objectsOf(w) {
		at[object] = i
	}
	changed := false
	back := map[string]bool{}
	for _, e := range entries {
		manifest := workv1.Manifest{RawExtension: runtime.RawExtension{Raw: e.raw}}
		back[hashOf(e.object)] = true
		i, there := at[e.object]
		switch {
		case !there:
			at[e.object] = len(next.Spec.Workload.Manifests)
			next.Spec.Workload.Manifests = append(next.Spec.Workload.Manifests, manifest)
		case !sameJSON(next.Spec.Workload.Manifests[i].Raw, e.raw):
			next.Spec.Workload.Manifests[i] = manifest
		default:
			continue
		}
		changed = true
	}
	if !changed {
		return w
	}
	removed := slices.DeleteFunc(removedOf(w), func(hash string) bool { return back[hash] })
	return finish(next, w, removed, o)
}

// take returns a work without the objects, or w itself if w does not have them.
func take(w *workv1.ManifestWork, objects map[appcontext.Object]bool, o *Options) *workv1.ManifestWork {
	next := w.DeepCopy()
	kept := next.Spec.Workload.Manifests[:0]
	removed := removedOf(w)
	for i, object := range objectsOf(w) {
		if objects[object] {
			removed = append(removed, hashOf(object))
			continue
		}
		kept = append(kept, next.Spec.Workload.Manifests[i])
	}
	if len(kept) == len(w.Spec.Workload.Manifests) {
		return w
	}
	next.Spec.Workload.Manifests = kept
	return finish(next, w, removed, o)
}

// finish sets the fields of a work that follow from its manifests and the options.
func finish(next, before *workv1.ManifestWork, removed []string, o *Options) *workv1.ManifestWork {
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	maps.Copy(next.Labels, o.Labels)
	maps.Copy(next.Annotations, o.Annotations)
	next.Labels[LabelManager] = o.Manager
	if reported(before) == nil { // the agent has processed all earlier removals
		was := removedOf(before)
		removed = slices.DeleteFunc(removed, func(hash string) bool { return slices.Contains(was, hash) })
	}
	setRemoved(next, removed)
	next.Spec.Executor, next.Spec.DeleteOption = o.Executor.DeepCopy(), o.DeleteOption.DeepCopy()
	next.Spec.ManifestConfigs = nil
	for _, object := range objectsOf(next) {
		if object.Kind == "" {
			continue
		}
		if config := o.Config(object); config != nil {
			next.Spec.ManifestConfigs = append(next.Spec.ManifestConfigs, *config.DeepCopy())
		}
	}
	return next
}

const (
	// maxRemoved limits the annotation. Above it, any object counts as removed from the work.
	maxRemoved = 512
	anyObject  = "any"
)

// removedOf returns the hashes of the objects that were removed from a work.
func removedOf(w *workv1.ManifestWork) []string {
	return strings.FieldsFunc(w.Annotations[annotationRemoved], func(r rune) bool { return r == ',' })
}

func setRemoved(w *workv1.ManifestWork, hashes []string) {
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	if len(hashes) > maxRemoved || slices.Contains(hashes, anyObject) {
		hashes = []string{anyObject}
	}
	if len(hashes) == 0 {
		delete(w.Annotations, annotationRemoved)
		return
	}
	w.Annotations[annotationRemoved] = strings.Join(hashes, ",")
}

// wasRemoved reports whether an object was removed from a work.
func wasRemoved(w *workv1.ManifestWork, object appcontext.Object) bool {
	if w.Annotations[annotationRemoved] == "" {
		return false
	}
	hash := hashOf(object)
	return slices.ContainsFunc(removedOf(w), func(h string) bool { return h == hash || h == anyObject })
}

// hashOf returns a short hash. With equal hashes the engine waits longer for one of two objects.
func hashOf(o appcontext.Object) string {
	const size = 6
	sum := sha256.Sum256([]byte(o.Group + "\x00" + o.Kind + "\x00" + o.Namespace + "\x00" + o.Name))
	return hex.EncodeToString(sum[:size])
}

// sameJSON compares content: a hub may return other spaces and another order.
func sameJSON(a, b []byte) bool {
	if string(a) == string(b) {
		return true
	}
	x, errX := contentOf(a)
	y, errY := contentOf(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func contentOf(data []byte) (v any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // different large integers must not become the same float
	err = decoder.Decode(&v)
	return v, err
}

// sized returns a terminal error for a work that is too large.
func sized(w *workv1.ManifestWork, entries []entry, limit int) error {
	for _, e := range entries {
		if len(e.raw) > limit {
			return driver.Fault(connector.ErrTerminal, e.object,
				"the manifest has %d bytes of JSON and Options.MaxWorkBytes allows %d for a work", len(e.raw), limit)
		}
	}
	counted := &workv1.ManifestWork{ObjectMeta: w.ObjectMeta, Spec: w.Spec}
	counted.ManagedFields = nil
	data, err := json.Marshal(counted)
	if err != nil {
		return driver.Terminal("the work %s cannot be written as JSON", w.Name)
	}
	if len(data) > limit {
		return driver.Terminal("the work %s would have %d bytes and Options.MaxWorkBytes allows %d: divide the app",
			w.Name, len(data), limit)
	}
	return nil
}
