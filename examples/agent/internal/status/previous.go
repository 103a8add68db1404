// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package status

import workv1 "open-cluster-management.io/api/work/v1"

// previous finds the last status of a manifest, without a search of the list.
type previous struct {
	manifests []workv1.ManifestCondition
	places    map[place]int
}

// place is the key of an entry of a status.
type place struct {
	group, kind, namespace, name string
	// anywhere is whether the entry has no resource: its namespace may have changed since.
	anywhere bool
	ordinal  int32 // -1 for the first entry of several
}

func previousOf(manifests []workv1.ManifestCondition) previous {
	p := previous{manifests, make(map[place]int, 2*len(manifests))}
	for i := range manifests {
		m := &manifests[i].ResourceMeta
		at := placeOf(m, m.Resource == "")
		p.places[at] = i
		at.ordinal = -1
		if _, ok := p.places[at]; !ok {
			p.places[at] = i
		}
	}
	return p
}

func placeOf(m *workv1.ManifestResourceMeta, anywhere bool) place {
	at := place{
		group:     m.Group,
		kind:      m.Kind,
		namespace: m.Namespace,
		name:      m.Name,
		anywhere:  anywhere,
		ordinal:   m.Ordinal,
	}
	if anywhere {
		at.namespace = ""
	}
	return at
}

// of returns the last status of the same object. Its ordinal may have changed, and its resource and
// namespace are only known after its kind. If the work has the object twice, the entry with the
// same ordinal is returned.
func (p previous) of(m workv1.ManifestResourceMeta) workv1.ManifestCondition {
	if m.Name == "" {
		return workv1.ManifestCondition{} // the object is unknown
	}
	for _, ordinal := range []int32{m.Ordinal, -1} {
		for _, anywhere := range []bool{false, true} {
			at := placeOf(&m, anywhere)
			at.ordinal = ordinal
			if i, ok := p.places[at]; ok {
				return p.manifests[i]
			}
		}
	}
	return workv1.ManifestCondition{}
}
