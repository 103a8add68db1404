// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package status

import workv1 "open-cluster-management.io/api/work/v1"

// previous finds the last status of a manifest, without a search of the list.
type previous map[workv1.ManifestResourceMeta]*workv1.ManifestCondition

// anyOrdinal is in the key of the first of several entries for the same object.
const anyOrdinal = -1

func previousOf(manifests []workv1.ManifestCondition) previous {
	p := make(previous, 2*len(manifests))
	for i := range manifests {
		m := &manifests[i]
		key := keyOf(m.ResourceMeta, m.ResourceMeta.Resource != "")
		p[key] = m
		key.Ordinal = anyOrdinal
		if p[key] == nil {
			p[key] = m
		}
	}
	return p
}

// keyOf returns the key of an entry. The namespace of an entry without a resource may have changed
// since.
func keyOf(m workv1.ManifestResourceMeta, located bool) workv1.ManifestResourceMeta {
	key := workv1.ManifestResourceMeta{Ordinal: m.Ordinal, Group: m.Group, Kind: m.Kind, Name: m.Name}
	if located {
		key.Namespace, key.Resource = m.Namespace, "known"
	}
	return key
}

// of returns the last status of the same object. Its ordinal may have changed, and its resource and
// namespace are only known after its kind. If the work has the object twice, the entry with the
// same ordinal is returned.
func (p previous) of(m workv1.ManifestResourceMeta) workv1.ManifestCondition {
	if m.Name == "" {
		return workv1.ManifestCondition{} // the object is unknown
	}
	for _, ordinal := range []int32{m.Ordinal, anyOrdinal} {
		m.Ordinal = ordinal
		for _, located := range []bool{true, false} {
			if was := p[keyOf(m, located)]; was != nil {
				return *was
			}
		}
	}
	return workv1.ManifestCondition{}
}
