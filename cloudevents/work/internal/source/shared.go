// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"hash/maphash"
	"maps"
	"unsafe"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// shared has one copy of equal parts of works. Fleets have many: one application on each cluster,
// with one status. The source's mutex guards it.
type shared struct {
	seed      maphash.Seed
	manifests map[uint64]sharedManifest // by the hash of their bytes
	sweep     int                       // the size of manifests at which the entries of freed manifests are removed
	texts     map[string]string         // of statuses
}

// sharedManifest does not keep the manifest in memory: a manifest that no work uses is freed.
type sharedManifest struct {
	first weak.Pointer[byte]
	size  int
}

// Limits of shared. An entry of a manifest has some 50 bytes.
const (
	minManifest = 128 // bytes of a manifest
	minSweep    = 1024
	maxText     = 128 // bytes of a text
	maxTexts    = 4096
)

func newShared() *shared {
	return &shared{
		seed: maphash.MakeSeed(), manifests: map[uint64]sharedManifest{}, sweep: minSweep, texts: map[string]string{},
	}
}

// workLocked replaces the parts of a decoded work that other works have too.
func (s *shared) workLocked(obj *workv1.ManifestWork) {
	s.specLocked(&obj.Spec)
	s.conditionsLocked(obj.Status.Conditions)
	manifests := obj.Status.ResourceStatus.Manifests
	for i := range manifests {
		m := &manifests[i].ResourceMeta
		s.textsLocked(&m.Group, &m.Version, &m.Kind, &m.Resource, &m.Name, &m.Namespace)
		s.conditionsLocked(manifests[i].Conditions)
	}
}

// specLocked replaces the manifests of a new spec that another work uses.
func (s *shared) specLocked(spec *workv1.ManifestWorkSpec) {
	for i := range spec.Workload.Manifests {
		if raw := &spec.Workload.Manifests[i].Raw; len(*raw) >= minManifest {
			*raw = s.manifestLocked(*raw)
		}
	}
}

func (s *shared) manifestLocked(data []byte) []byte {
	hash := maphash.Bytes(s.seed, data)
	if known, ok := s.manifests[hash]; ok && known.size == len(data) {
		if first := known.first.Value(); first != nil {
			if other := unsafe.Slice(first, known.size); bytes.Equal(other, data) {
				return other
			}
			return data
		}
	}
	if len(s.manifests) >= s.sweep {
		maps.DeleteFunc(s.manifests, func(_ uint64, m sharedManifest) bool { return m.first.Value() == nil })
		s.sweep = max(minSweep, 2*len(s.manifests))
	}
	s.manifests[hash] = sharedManifest{weak.Make(&data[0]), len(data)}
	return data
}

func (s *shared) conditionsLocked(conditions []metav1.Condition) {
	for i := range conditions {
		c := &conditions[i]
		s.textsLocked(&c.Type, (*string)(&c.Status), &c.Reason, &c.Message)
	}
}

func (s *shared) textsLocked(texts ...*string) {
	for _, text := range texts {
		if len(*text) > maxText {
			continue
		}
		known, ok := s.texts[*text]
		if !ok {
			if len(s.texts) == maxTexts {
				clear(s.texts)
			}
			known = *text
			s.texts[known] = known
		}
		*text = known
	}
}
