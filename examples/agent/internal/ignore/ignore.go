// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package ignore leaves fields of an object to whoever has them on the cluster, as the ignoreFields of server-side apply
// want it.
//
// A field is looked for in the manifest, by a JSON path of Kubernetes, a JSON pointer (RFC 6901) or a path expression of jq.
// What is found is not sent. But a field that the agent manages itself must be sent, because the API server takes out what
// its manager does not send any more: then the value is the one on the cluster, also when the manifest has the field no more.
// Who manages a field, the API server's own record says, so that "somebody has changed it" needs no memory: whoever changes a
// field takes it over.
package ignore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/budget"
	"github.com/spokewire/sdk-go/examples/agent/internal/jsonpath"
)

const (
	// pathLimit is how long one path or pointer may take, which is bounded by steps as well.
	pathLimit = time.Second
	// jqLimit is how long one expression of jq may take.
	jqLimit = 250 * time.Millisecond
)

// Error is one of a path: the work is wrong, not the cluster.
type Error struct {
	// Path is the JSON path, pointer or expression, or the field that is wrong beside it.
	Path string
	Err  error
}

// Error names the path and what is wrong with it.
func (e *Error) Error() string { return fmt.Sprintf("ignoreFields: %.1000q: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Apply returns the manifest to send for an object, given the object on the cluster, nil for none, and which field managers
// are the agent's own. The manifest stays as it is. Errors are [*Error], also for an object that does not exist yet: better
// early than at the first change. What may be found, and how long that takes, is bounded, by the budget of ctx too.
func Apply(ctx context.Context, manifest, live *unstructured.Unstructured, fields []workv1.IgnoreField, ours func(manager string) bool) (*unstructured.Unstructured, error) {
	if len(fields) == 0 {
		return manifest, nil
	}
	result := manifest.DeepCopy()
	var owned map[string]any
	if live != nil {
		owned = ownedFields(live, ours)
	}
	var removals []path
	r := &resolver{steps: &budget.Steps{}}
	for _, f := range fields {
		if c := f.Condition; c != "" && c != workv1.IgnoreFieldsConditionOnSpokePresent && c != workv1.IgnoreFieldsConditionOnSpokeChange {
			return nil, &Error{Path: "condition", Err: fmt.Errorf("%q is unknown: write OnSpokePresent or OnSpokeChange", c)}
		}
		paths, err := find(ctx, r.steps, manifest.Object, f)
		if err != nil {
			return nil, err
		}
		if live == nil {
			continue
		}
		if f.Condition != workv1.IgnoreFieldsConditionOnSpokeChange {
			if err := keepOurs(ctx, r, result.Object, manifest.Object, live.Object, owned, f); err != nil {
				return nil, err
			}
		}
		err = each(ctx, r.steps, paths, func(p path) {
			place := p.on(r, manifest.Object, live.Object, owned)
			switch {
			case f.Condition == workv1.IgnoreFieldsConditionOnSpokeChange && (place.fields != nil || !place.found):
				// Nobody has changed it since the agent has applied it, or there is nothing to leave alone.
			case place.fields != nil && place.found:
				p.set(result.Object, part(r, place.fields, place.live))
			default:
				removals = append(removals, p)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(removals, func(a, b path) int { return -compare(a, b) }) // the last item of a list first
	for _, p := range slices.CompactFunc(removals, func(a, b path) bool { return compare(a, b) == 0 }) {
		p.remove(result.Object)
	}
	return result, nil
}

// each calls f for each path. It returns an error when time or steps are over: an incomplete object must not be sent.
func each(ctx context.Context, steps *budget.Steps, paths []path, f func(path)) error {
	err := budget.Evaluate(ctx, pathLimit, func(ctx context.Context) error {
		for _, p := range paths {
			if f(p); ctx.Err() != nil || steps.Err() != nil {
				return cmp.Or(steps.Err(), ctx.Err())
			}
		}
		return nil
	})
	if err != nil {
		return &Error{Path: "fields on the cluster", Err: err}
	}
	return nil
}

// keepOurs adds what a rule names and the manifest does not have any more, as it is on the cluster, where that is ours: it would
// be taken out there if it was not sent. Items of lists, which may be at another place there, are not looked for.
func keepOurs(ctx context.Context, r *resolver, result, manifest, live, owned map[string]any, f workv1.IgnoreField) error {
	paths, err := find(ctx, r.steps, live, f)
	if err != nil {
		return r.steps.Err() // otherwise it is for the manifest, and fits that
	}
	return each(ctx, r.steps, paths, func(p path) {
		place := p.on(r, live, live, owned)
		if place.found && place.fields != nil && !p.leads(manifest) {
			p.add(result, part(r, place.fields, place.live))
		}
	})
}

// find returns the places in the manifest that a rule names.
func find(ctx context.Context, steps *budget.Steps, manifest map[string]any, f workv1.IgnoreField) (all []path, err error) {
	for _, by := range []struct {
		texts []string
		limit time.Duration
		find  func(context.Context, *budget.Steps, string, map[string]any) ([]path, error)
	}{{f.JSONPaths, pathLimit, byJSONPath}, {f.JSONPointers, pathLimit, byPointer}, {f.JQPathExpressions, jqLimit, byJQ}} {
		for _, text := range by.texts {
			var paths []path
			err := budget.Evaluate(ctx, by.limit, func(ctx context.Context) (err error) {
				paths, err = by.find(ctx, steps, text, manifest)
				return err
			})
			if err == nil {
				err = refuse(paths)
			}
			if err != nil {
				return nil, &Error{Path: text, Err: err}
			}
			all = append(all, paths...)
		}
	}
	return all, nil
}

// byJSONPath follows a JSON path of Kubernetes.
func byJSONPath(ctx context.Context, steps *budget.Steps, text string, manifest map[string]any) ([]path, error) {
	found, err := jsonpath.Find(ctx, steps, text, manifest)
	if err != nil && !errors.Is(err, jsonpath.ErrMisfit) { // as nothing is there, nothing is ignored
		return nil, err
	}
	paths := make([]path, len(found))
	for i, m := range found {
		paths[i] = m.Path
	}
	return paths, nil
}

// refuse: without its identity an object cannot be sent.
func refuse(paths []path) error {
	for _, p := range paths {
		if len(p) == 0 {
			return errors.New("it is the whole object: use the update strategy CreateOnly or ReadOnly for that")
		}
		switch p[0] {
		case "apiVersion", "kind":
			return fmt.Errorf("%v cannot be left out", p[0])
		case "metadata":
			if len(p) == 1 || p[1] == "name" || p[1] == "namespace" {
				return errors.New("name and namespace cannot be left out")
			}
		}
	}
	return nil
}

// ownedFields is the record of what the agent manages in an object, in the form of FieldsV1; nil for nothing, as an empty
// one stands for all that is there.
func ownedFields(live *unstructured.Unstructured, ours func(string) bool) map[string]any {
	all := map[string]any{}
	for _, e := range live.GetManagedFields() {
		var fields map[string]any
		if e.FieldsV1 != nil && e.Subresource == "" && ours(e.Manager) && json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) == nil {
			merge(all, fields)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

func merge(into, from map[string]any) {
	for name, value := range from {
		sub, _ := value.(map[string]any)
		if old, ok := into[name].(map[string]any); ok {
			merge(old, sub)
			continue
		}
		into[name] = sub
	}
}
