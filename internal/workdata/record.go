// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workdata

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// recordDepth is a nesting depth that encoding/json accepts. It decodes deeper records.
const recordDepth = 1000

// The objects of a work in the form of the API.
var (
	work = Object[workv1.ManifestWork]{
		{"kind", func(w *workv1.ManifestWork) any { return &w.Kind }},
		{"apiVersion", func(w *workv1.ManifestWork) any { return &w.APIVersion }},
		{"metadata", func(w *workv1.ManifestWork) any { return &w.ObjectMeta }},
		{"spec", func(w *workv1.ManifestWork) any { return &w.Spec }},
		{"status", func(w *workv1.ManifestWork) any { return &w.Status }},
	}
	metadata = Object[metav1.ObjectMeta]{
		{"name", func(m *metav1.ObjectMeta) any { return &m.Name }},
		{"generateName", func(m *metav1.ObjectMeta) any { return &m.GenerateName }},
		{"namespace", func(m *metav1.ObjectMeta) any { return &m.Namespace }},
		{"selfLink", func(m *metav1.ObjectMeta) any { return &m.SelfLink }}, //nolint:staticcheck // objects may have it
		{"uid", func(m *metav1.ObjectMeta) any { return &m.UID }},
		{"resourceVersion", func(m *metav1.ObjectMeta) any { return &m.ResourceVersion }},
		{"generation", func(m *metav1.ObjectMeta) any { return &m.Generation }},
		{"creationTimestamp", func(m *metav1.ObjectMeta) any { return &m.CreationTimestamp }},
		{"deletionTimestamp", func(m *metav1.ObjectMeta) any { return &m.DeletionTimestamp }},
		{"deletionGracePeriodSeconds", func(m *metav1.ObjectMeta) any { return &m.DeletionGracePeriodSeconds }},
		{"labels", func(m *metav1.ObjectMeta) any { return &m.Labels }},
		{"annotations", func(m *metav1.ObjectMeta) any { return &m.Annotations }},
		{"ownerReferences", func(m *metav1.ObjectMeta) any { return &m.OwnerReferences }},
		{"finalizers", func(m *metav1.ObjectMeta) any { return &m.Finalizers }},
		{"managedFields", func(m *metav1.ObjectMeta) any { return &m.ManagedFields }},
	}
	spec = Object[workv1.ManifestWorkSpec]{
		{"workload", func(s *workv1.ManifestWorkSpec) any { return &s.Workload }},
		{"deleteOption", func(s *workv1.ManifestWorkSpec) any { return &s.DeleteOption }},
		{"manifestConfigs", func(s *workv1.ManifestWorkSpec) any { return &s.ManifestConfigs }},
		{"executor", func(s *workv1.ManifestWorkSpec) any { return &s.Executor }},
	}
	workload = Object[workv1.ManifestsTemplate]{
		{"manifests", func(t *workv1.ManifestsTemplate) any { return &t.Manifests }},
	}
	apiStatus = Object[workv1.ManifestWorkStatus]{
		{"conditions", func(s *workv1.ManifestWorkStatus) any { return &s.Conditions }},
		{"resourceStatus", func(s *workv1.ManifestWorkStatus) any { return (*apiResources)(&s.ResourceStatus) }},
	}
	apiResource = Object[apiResources]{
		{"manifests", func(s *apiResources) any { return &s.Manifests }},
	}
)

// apiResources is a resourceStatus without the names of the enhancement.
type apiResources workv1.ManifestResourceStatus

// Decode decodes a record of a store, as encoding/json does, into an empty value. of has its
// members. It copies all text that the value refers to.
func Decode[T any](record []byte, to *T, of Object[T]) error {
	if parseRecord(record, to, of) {
		return nil
	}
	*to = *new(T)
	return json.Unmarshal(record, to)
}

// parseRecord returns false if encoding/json must decode the record.
func parseRecord[T any](record []byte, to *T, of Object[T]) bool {
	p := parser{Reader: jsontext.NewReader(record, recordDepth, math.MaxInt)}
	readObject(&p, to, of)
	return p.finish()
}

// recordMember reads a member that status events do not have.
func (p *parser) recordMember(at any) {
	switch to := at.(type) {
	case *types.UID:
		p.text((*string)(to))
	case *int:
		*to = int(p.integer(0))
	case *bool:
		*to = p.boolean()
	case *map[string]string:
		*to = p.dictionary()
	case *[]string:
		*to = readAll(p, func() string { text, _ := p.quoted(); return string(text) })
	case *time.Time:
		if to.UnmarshalJSON(p.Value()) != nil {
			p.odd()
		}
	case **metav1.Time:
		if p.Peek() == 'n' {
			p.odd()
		}
		*to = new(p.timestamp())
	case **workv1.ManifestWork:
		*to = &workv1.ManifestWork{}
		readObject(p, *to, work)
	case *metav1.ObjectMeta:
		readObject(p, to, metadata)
	case *workv1.ManifestWorkSpec:
		readObject(p, to, spec)
	case *workv1.ManifestsTemplate:
		readObject(p, to, workload)
	case *[]workv1.Manifest:
		*to = readAll(p, p.rawManifest)
	case *workv1.ManifestWorkStatus:
		p.apiStatus(to)
	case *apiResources:
		readObject(p, to, apiResource)
	default:
		if json.Unmarshal(p.Value(), at) != nil {
			p.odd()
		}
	}
}

// apiStatus reads the status of a work. Its strings have their own blocks: the other strings of the
// work remain in memory longer.
func (p *parser) apiStatus(to *workv1.ManifestWorkStatus) {
	p.texts.flush()
	p.blocks(p.Rest(), math.MaxInt)
	readObject(p, to, apiStatus)
	p.texts.flush()
}

func (p *parser) rawManifest() (m workv1.Manifest) {
	if raw := p.Value(); string(raw) != "null" {
		m.Raw = bytes.Clone(raw)
	}
	return m
}

func (p *parser) dictionary() map[string]string {
	m := map[string]string{}
	for p.Open('{'); p.Member(); {
		key := string(p.Key)
		text, _ := p.quoted()
		m[key] = string(text)
	}
	return m
}

func readAll[T any](p *parser, read func() T) []T {
	list := []T{}
	for p.Open('['); p.Element(); {
		list = append(list, read())
	}
	return list
}
