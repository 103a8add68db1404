// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Kind is a kind of document.
type Kind string

// The kinds.
const (
	ClusterKind      Kind = "Cluster"
	ApplicationKind  Kind = "Application"
	PlacementKind    Kind = "Placement"
	InterpretingKind Kind = "ResourceInterpreterWebhookConfiguration"
	ExploringKind    Kind = "ResourceExploringWebhookConfiguration"
)

// APIVersion is that of the first three kinds.
const APIVersion = "hub.spokewire.io/v1alpha1"

// Header is what each document begins with.
type Header struct {
	APIVersion string   `json:"apiVersion"`
	Kind       Kind     `json:"kind"`
	Metadata   Metadata `json:"metadata"`
}

// Metadata names a document.
type Metadata struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
}

// Cluster is a cluster that has an agent.
type Cluster struct {
	Header `json:",inline"`
}

// Application is what runs on clusters.
type Application struct {
	Header `json:",inline"`
	Spec   ApplicationSpec `json:"spec"`
}

// ApplicationSpec has the parts of an application.
type ApplicationSpec struct {
	Parts []Part `json:"parts"`
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
	// Condition is Ready, which is the default, or Deployed.
	Condition string `json:"condition,omitempty"`
	// Wait is how long to wait beyond that.
	Wait metav1.Duration `json:"wait,omitempty"`
}

// Manifest is a template of objects.
type Manifest struct {
	// Hook is empty, or when the objects are applied that are not simply part of the part.
	Hook     string `json:"hook,omitempty"`
	Template string `json:"template"`
}

// Placement brings applications to clusters.
type Placement struct {
	Header `json:",inline"`
	Spec   PlacementSpec `json:"spec"`
}

// PlacementSpec says which applications run on which clusters.
type PlacementSpec struct {
	Applications []string `json:"applications"`
	Clusters     Clusters `json:"clusters"`
}

// Clusters selects clusters: those that are named and those that the selector selects.
type Clusters struct {
	Names []string `json:"names,omitempty"`
	// Selector selects by labels. Without one there are only the names; an empty one selects all clusters.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// On returns the clusters that an application is placed on, in the order of their names. The set must be valid.
func (s *Set) On(application string) []*Cluster {
	placed := map[string]bool{}
	clusters := All[*Cluster](s, ClusterKind)
	for _, p := range All[*Placement](s, PlacementKind) {
		if !slices.Contains(p.Spec.Applications, application) {
			continue
		}
		for _, name := range p.Spec.Clusters.Names {
			placed[name] = true
		}
		selector, err := metav1.LabelSelectorAsSelector(p.Spec.Clusters.Selector)
		if err != nil {
			continue // Validate has told
		}
		for _, c := range clusters {
			if selector.Matches(labels.Set(c.Metadata.Labels)) {
				placed[c.Metadata.Name] = true
			}
		}
	}
	out := make([]*Cluster, 0, len(placed))
	for _, name := range slices.Sorted(maps.Keys(placed)) {
		if c := Get[*Cluster](s, ClusterKind, name); c != nil {
			out = append(out, c)
		}
	}
	return out
}
