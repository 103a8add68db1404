// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/internal/fielddiff"
)

const (
	// maxPlanned is the maximum number of objects of an application in a plan.
	maxPlanned = 1000
	// maxTexts limits the values in the changes of documents, in bytes. Later values are cut.
	maxTexts = 4 << 20
)

// Apply creates or replaces documents atomically. The errors are those of Replace.
func (h *Hub) Apply(ctx context.Context, documents ...*document.Document) ([]status.DocumentChange, error) {
	var forget []func()
	for _, d := range documents {
		forget = append(forget, h.prepare(ctx, d))
	}
	defer func() {
		for _, f := range forget {
			f()
		}
	}()
	ctx, done, err := h.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	set, changes, err := h.with(documents)
	if err != nil {
		return nil, err
	}
	cause := fmt.Sprintf("%d documents have changed", len(documents))
	if len(documents) == 1 {
		cause = fmt.Sprintf("%s %s has changed", documents[0].Kind, documents[0].Name)
	}
	return changes, h.take(ctx, set, cause)
}

// with returns the documents of the hub with others in addition, and the changes.
func (h *Hub) with(others []*document.Document) (set *document.Set, changes []status.DocumentChange, err error) {
	if _, err := document.NewSet(others...); err != nil { // two with the same name
		return nil, nil, err
	}
	before, left := h.Documents(), maxTexts
	for _, d := range others {
		c := status.DocumentChange{Kind: string(d.Kind), Name: d.Name, Action: status.Created}
		if was := before.Document(d.Kind, d.Name); was != nil {
			if c.Changes, err = between(was.JSON, d.JSON); err != nil {
				return nil, nil, err
			}
			c.Action = status.Changed
			if bytes.Equal(was.JSON, d.JSON) || len(c.Changes) == 0 {
				c.Action = status.Unchanged
			}
		}
		for i := range c.Changes {
			for _, text := range []*string{&c.Changes[i].Before, &c.Changes[i].After} {
				*text = cut.Text(*text, left)
				left = max(0, left-len(*text))
			}
		}
		changes = append(changes, c)
	}
	return before.With(others...), changes, nil
}

// Plan returns what Apply would change. It changes nothing. The errors are those of Apply.
func (h *Hub) Plan(ctx context.Context, documents ...*document.Document) (*status.Plan, error) {
	ctx, done, err := h.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	before := h.Documents()
	set, changes, err := h.with(documents)
	if err != nil {
		return nil, err
	}
	results, err := h.check(ctx, set, false)
	if err := errors.Join(err, h.undo(ctx, before, set)); err != nil {
		return nil, err
	}
	out := &status.Plan{Documents: changes, Applications: []status.PlannedApplication{}}
	for _, r := range results {
		h.mu.Lock()
		was := &render.Rendering{}
		if a := h.applications[r.name]; a != nil && a.rendering != nil {
			was = a.rendering
		}
		h.mu.Unlock()
		a := status.PlannedApplication{Name: r.name}
		if r.err != nil {
			a.Problem = strings.ReplaceAll(r.err.Error(), "\n", "; ")
		}
		if r.rendering != nil && r.rendering != was {
			a.Objects = planned(was, r.rendering)
		}
		if a.More = len(a.Objects) - maxPlanned; a.More > 0 {
			a.Objects = a.Objects[:maxPlanned]
		}
		a.More = max(0, a.More)
		if a.Problem != "" || len(a.Objects) > 0 {
			out.Applications = append(out.Applications, a)
		}
	}
	return out, nil
}

// planned returns the objects in which two renderings differ.
func planned(before, after *render.Rendering) (out []status.PlannedObject) {
	type change struct {
		object string
		action status.Action
	}
	clusters := map[change][]string{}
	for id, r := range after.Resources {
		was, c := before.Resources[id], change{id.Object.String(), status.Changed}
		if was == nil {
			c.action = status.Created
		} else if reflect.DeepEqual(was, r) {
			continue
		}
		clusters[c] = append(clusters[c], id.Cluster.Name)
	}
	for id := range before.Resources {
		if after.Resources[id] == nil {
			c := change{id.Object.String(), status.Deleted}
			clusters[c] = append(clusters[c], id.Cluster.Name)
		}
	}
	for c, on := range clusters {
		slices.Sort(on)
		out = append(out, status.PlannedObject{Object: c.object, Action: c.action, Clusters: on})
	}
	slices.SortFunc(out, func(a, b status.PlannedObject) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Action, b.Action))
	})
	return out
}

// between returns the fields in which two documents differ.
func between(before, after []byte) ([]status.Change, error) {
	var documents [2]map[string]any
	if err := errors.Join(json.Unmarshal(before, &documents[0]), json.Unmarshal(after, &documents[1])); err != nil {
		return nil, err
	}
	out := []status.Change{}
	for _, c := range fielddiff.Between(documents[0], documents[1]) {
		before, after := different(text(c.Before), text(c.After))
		out = append(out, status.Change{Path: c.Path, Before: before, After: after})
	}
	return out, nil
}
