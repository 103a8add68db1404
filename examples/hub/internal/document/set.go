// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// Key identifies a document of a set.
type Key struct {
	Kind Kind
	Name string
}

// Set has at most one document of each kind and name. It is immutable: With and Without return new
// sets.
type Set struct {
	documents map[Key]*Document
}

// NewSet returns a set, or an [*Error] for two documents with the same kind and name.
func NewSet(documents ...*Document) (*Set, error) {
	s := &Set{documents: map[Key]*Document{}}
	for _, d := range documents {
		key := Key{d.Kind, d.Name}
		if before := s.documents[key]; before != nil {
			return nil,
				&Error{d.Where, "metadata.name", fmt.Sprintf("another %s %s is in %s", d.Kind, d.Name, before.Where)}
		}
		s.documents[key] = d
	}
	return s, nil
}

// With returns a set in which a document is added, or replaces the one with the same kind and name.
func (s *Set) With(d *Document) *Set {
	documents := maps.Clone(s.documents)
	documents[Key{d.Kind, d.Name}] = d
	return &Set{documents}
}

// Without returns a set without a document.
func (s *Set) Without(key Key) *Set {
	documents := maps.Clone(s.documents)
	delete(documents, key)
	return &Set{documents}
}

// Document returns a document, or nil.
func (s *Set) Document(kind Kind, name string) *Document { return s.documents[Key{kind, name}] }

// Documents returns the documents of a kind in the order of their names.
func (s *Set) Documents(kind Kind) []*Document {
	var out []*Document
	for key, d := range s.documents {
		if key.Kind == kind {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *Document) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Len returns the number of documents.
func (s *Set) Len() int { return len(s.documents) }

// All returns the objects of a kind in the order of their names.
func All[T any](s *Set, kind Kind) []T {
	var out []T
	for _, d := range s.Documents(kind) {
		out = append(out, d.Object.(T))
	}
	return out
}

// Get returns an object, or nil.
func Get[T any](s *Set, kind Kind, name string) (object T) {
	if d := s.Document(kind, name); d != nil {
		object = d.Object.(T)
	}
	return object
}

// Webhooks returns the configurations of webhooks.
func (s *Set) Webhooks() caller.Configurations {
	var out caller.Configurations
	for _, c := range All[*v1alpha1.ResourceInterpreterWebhookConfiguration](s, InterpretingKind) {
		out.Interpreting = append(out.Interpreting, *c)
	}
	for _, c := range All[*v1alpha1.ResourceExploringWebhookConfiguration](s, ExploringKind) {
		out.Exploring = append(out.Exploring, *c)
	}
	return out
}
