// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/internal/fielddiff"
	"github.com/spokewire/sdk-go/rsync"
)

// revisions returns the stored revisions of an application, the newest first.
func (h *Hub) revisions(ctx context.Context, name string) (out []status.Revision, err error) {
	stored, _, err := h.options.Rollouts.Revisions(ctx, name)
	before := 0
	for _, r := range stored {
		out = append(out, status.Revision{Application: name, Number: r.Number, Before: before, Cause: r.Cause,
			Created: r.Created, By: r.By, Clusters: r.Clusters})
		before = r.Number
	}
	slices.Reverse(out)
	return out, err
}

// source returns the source of a revision, or an [ErrNotFound].
func (h *Hub) source(ctx context.Context, name string, number int) (json.RawMessage, error) {
	out, err := h.options.Rollouts.Source(ctx, name, number)
	if errors.Is(err, rsync.ErrNotFound) {
		err = fmt.Errorf("revision %d of the application %s: %w", number, name, ErrNotFound)
	}
	return out, err
}

// History returns the stored revisions of all applications, and the actions of users, the newest first.
func (h *Hub) History(ctx context.Context) ([]status.Revision, error) {
	stored, err := h.options.Rollouts.Applications(ctx)
	actions, failed := h.options.Actions.All(ctx)
	out, err := []status.Revision{}, errors.Join(err, failed)
	for _, a := range slices.Backward(actions) {
		out = append(out, status.Revision{
			Application: a.Application, Cluster: a.Cluster, Cause: a.Text, By: a.By, Created: a.Created,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		revisions, failed := h.revisions(ctx, name)
		out, err = append(out, revisions...), errors.Join(err, failed)
	}
	slices.SortStableFunc(out, func(a, b status.Revision) int { return b.Created.Compare(a.Created) })
	return out, err
}

// Diff returns the fields in which two revisions of an application differ. Values that templates have
// read may be secret: only their names are shown. The error is [ErrNotFound] for a missing revision.
func (h *Hub) Diff(ctx context.Context, name string, from, to int) ([]status.Change, error) {
	var documents [2][]byte
	var values [2]map[string]string
	for i, number := range []int{from, to} {
		source, err := render.DecodeSource(h.source(ctx, name, number))
		if err != nil {
			return nil, err
		}
		documents[i], values[i] = source.Document, source.Values
	}
	out, err := between(documents[0], documents[1])
	if err != nil {
		return nil, err
	}
	both := maps.Clone(values[0])
	if both == nil {
		both = map[string]string{}
	}
	maps.Copy(both, values[1])
	for _, key := range slices.Sorted(maps.Keys(both)) {
		if values[0][key] != values[1][key] {
			out = append(out, status.Change{Path: key, Before: fielddiff.Redacted, After: fielddiff.Redacted})
		}
	}
	return out, nil
}

// text returns a value of a document as text.
func text(value any) string {
	if text, ok := value.(string); ok || value == nil {
		return text
	}
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// different returns two texts without the lines at the beginning and the end that are the same.
func different(before, after string) (string, string) {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	for len(a) > 1 && len(b) > 1 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 1 && len(b) > 1 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return strings.Join(a, "\n"), strings.Join(b, "\n")
}
