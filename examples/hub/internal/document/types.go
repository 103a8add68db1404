// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/spokewire/sdk-go/examples/internal/rollouts"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Kind is a kind of document.
type Kind string

// The kinds of documents.
const (
	ClusterKind      Kind = "Cluster"
	ApplicationKind  Kind = "Application"
	PlacementKind    Kind = "Placement"
	InterpretingKind Kind = "ResourceInterpreterWebhookConfiguration"
	ExploringKind    Kind = "ResourceExploringWebhookConfiguration"
)

// APIVersion is the API version of the first three kinds.
const APIVersion = "hub.spokewire.io/v1alpha1"

// object is the content of a document.
type object interface{ GetName() string }

var kinds = []struct {
	kind    Kind
	version string
	create  func() object
}{
	{ClusterKind, APIVersion, func() object { return &Cluster{} }},
	{ApplicationKind, APIVersion, func() object { return &Application{} }},
	{PlacementKind, APIVersion, func() object { return &Placement{} }},
	{InterpretingKind, v1alpha1.GroupVersion.String(),
		func() object { return &v1alpha1.ResourceInterpreterWebhookConfiguration{} }},
	{ExploringKind, v1alpha1.GroupVersion.String(),
		func() object { return &v1alpha1.ResourceExploringWebhookConfiguration{} }},
}

// Kinds returns all kinds of documents.
func Kinds() (all []Kind) {
	for _, k := range kinds {
		all = append(all, k.kind)
	}
	return all
}

// Header has the fields that all documents have.
type Header struct {
	APIVersion string   `json:"apiVersion"`
	Kind       Kind     `json:"kind"`
	Metadata   Metadata `json:"metadata"`
}

// GetName returns the name of the document.
func (h *Header) GetName() string { return h.Metadata.Name }

// Metadata has the name and labels of a document.
type Metadata struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
}

// Cluster is a cluster that has an agent.
type Cluster struct {
	Header `json:",inline"`
}

// Application is an application that runs on clusters.
type Application struct {
	Header `json:",inline"`
	Spec   ApplicationSpec `json:"spec"`
}

// ApplicationSpec has the parts of an application, and its rollout.
type ApplicationSpec struct {
	Parts   []Part                      `json:"parts"`
	Rollout *rollouts.Rollout[Clusters] `json:"rollout,omitempty"`
}

// Groups returns the groups of the rollout.
func (s *ApplicationSpec) Groups() []rollouts.Group[Clusters] {
	if s.Rollout == nil {
		return nil
	}
	return s.Rollout.Groups
}

// Part is rolled out as a whole on each cluster.
type Part struct {
	Name      string       `json:"name"`
	DependsOn []Dependency `json:"dependsOn,omitempty"`
	Manifests []Manifest   `json:"manifests"`
}

// Dependency makes a part wait for another one.
type Dependency struct {
	Part string `json:"part"`
	// Condition is Ready (the default) or Deployed.
	Condition string `json:"condition,omitempty"`
	// Wait is how long to wait after the condition is met.
	Wait string `json:"wait,omitempty"`
}

// delay returns Wait as a duration.
func (d *Dependency) delay() (time.Duration, error) { return time.ParseDuration(cmp.Or(d.Wait, "0")) }

// App returns the part of a valid document as an app without clusters.
func (p *Part) App() appcontext.App {
	app := appcontext.App{Name: p.Name}
	for _, d := range p.DependsOn {
		wait, _ := d.delay()
		app.DependsOn = append(app.DependsOn, appcontext.Dependency{
			App: d.Part, Status: appcontext.OpStatus(cmp.Or(d.Condition, string(appcontext.OpStatusReady))), Wait: wait,
		})
	}
	return app
}

// Manifest is a template of objects.
type Manifest struct {
	// Hook is the hook at which the objects are applied; empty for objects that are no hook.
	Hook     string `json:"hook,omitempty"`
	Template string `json:"template"`
}

// Placement places applications on clusters.
type Placement struct {
	Header `json:",inline"`
	Spec   PlacementSpec `json:"spec"`
}

// PlacementSpec has the applications and selects their clusters.
type PlacementSpec struct {
	Applications []string `json:"applications"`
	Clusters     Clusters `json:"clusters"`
}

// Clusters selects clusters: the named ones and the ones that the selector selects.
type Clusters struct {
	Names []string `json:"names,omitempty"`
	// Selector selects by labels. Without a selector only the names are selected; an empty one
	// selects all clusters.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// On returns the clusters that an application is placed on, in the order of their names. The set must be valid.
func (s *Set) On(application string) []*Cluster {
	clusters, placed := All[*Cluster](s, ClusterKind), map[*Cluster]bool{}
	for _, p := range All[*Placement](s, PlacementKind) {
		if slices.Contains(p.Spec.Applications, application) {
			for _, c := range p.Spec.Clusters.of(clusters) {
				placed[c] = true
			}
		}
	}
	return slices.DeleteFunc(clusters, func(c *Cluster) bool { return !placed[c] })
}

// of returns the selected clusters, in their order.
func (c Clusters) of(clusters []*Cluster) (out []*Cluster) {
	selector, err := metav1.LabelSelectorAsSelector(c.Selector)
	if err != nil {
		selector = labels.Nothing() // refused by Decode
	}
	names := sets.New(c.Names...)
	for _, one := range clusters {
		if names.Has(one.Metadata.Name) || selector.Matches(labels.Set(one.Metadata.Labels)) {
			out = append(out, one)
		}
	}
	return out
}

// Provider is the provider of all clusters, see package appcontext.
const Provider = "hub"

// ClusterID returns the ID of a cluster.
func ClusterID(name string) appcontext.ClusterID {
	return appcontext.ClusterID{Provider: Provider, Name: name}
}

// Rollout returns the rollout of an Application over its clusters, or nil without one.
// The error for a rollout that cannot finish is an [*Error].
func (d *Document) Rollout(clusters []*Cluster) (*rsync.Rollout, error) {
	return d.rollout(func(c Clusters) (names []string) {
		for _, one := range c.of(clusters) {
			names = append(names, one.Metadata.Name)
		}
		return names
	})
}

func (d *Document) rollout(names func(Clusters) []string) (*rsync.Rollout, error) {
	a, ok := d.Object.(*Application)
	if !ok || a.Spec.Rollout == nil {
		return nil, nil //nolint:nilnil // no rollout
	}
	var app appcontext.App
	out, err := a.Spec.Rollout.Resolve(func(_ int, c Clusters) (ids []appcontext.ClusterID, _ error) {
		for _, name := range names(c) {
			ids = append(ids, ClusterID(name))
			app.Clusters = append(app.Clusters, appcontext.Cluster{ClusterID: ClusterID(name)})
		}
		return ids, nil
	})
	if err == nil {
		err = out.Validate(&appcontext.AppContext{Apps: []appcontext.App{app}})
	}
	var wrong *rsync.InvalidRolloutError
	if errors.As(err, &wrong) {
		path := clusterIndex.ReplaceAllString(initial.ReplaceAllStringFunc(wrong.Field, strings.ToLower), "")
		err = &Error{d.Where, spec.Child("rollout", path).String(), wrong.Problem}
	}
	return out, err
}

// The engine uses the field names of Go, and counts the selected clusters of a group.
var (
	initial      = regexp.MustCompile(`\b[A-Z]`)
	clusterIndex = regexp.MustCompile(`\[\d+\]$`)
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

// With returns a set in which documents are added, or replace those with the same kind and name.
func (s *Set) With(others ...*Document) *Set {
	documents := maps.Clone(s.documents)
	for _, d := range others {
		documents[Key{d.Kind, d.Name}] = d
	}
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
