// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// The metadata is encoded and decoded without encoding/json, which needs longer for it than for the
// rest of a spec event.

// metadata appends the part of the object's metadata that belongs to the source.
func (d *enhancementDraft) metadata(m *metav1.ObjectMeta) {
	d.data = append(d.data, '{')
	d.stringMap("labels", m.Labels)
	d.stringMap("annotations", m.Annotations)
	if len(m.OwnerReferences) > 0 {
		d.json("ownerReferences", m.OwnerReferences)
	}
	if m.Generation < 0 {
		d.fail(CodeData, "data.metadata.generation", "must not be negative", nil)
	}
	if m.Generation != 0 {
		d.name("generation")
		d.data = strconv.AppendInt(d.data, m.Generation, 10)
	}
	if !m.CreationTimestamp.IsZero() {
		if !isRFC3339(m.CreationTimestamp.Time) {
			d.fail(CodeData, "data.metadata.creationTimestamp", reasonTime, nil)
		}
		d.name("creationTimestamp")
		d.data = append(d.data, '"')
		d.data = m.CreationTimestamp.UTC().AppendFormat(d.data, time.RFC3339)
		d.data = append(d.data, '"')
	}
	d.data = append(d.data, '}')
}

// stringMap appends labels or annotations sorted by key, so that equal works have equal data.
func (d *enhancementDraft) stringMap(name string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	d.elements("data.metadata."+name, len(m))
	var buf [16]string
	keys := buf[:0]
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	d.name(name)
	d.data = append(d.data, '{')
	for i, key := range keys {
		if i > 0 {
			d.data = append(d.data, ',')
		}
		d.data = append(jsontext.AppendString(d.data, key), ':')
		d.data = jsontext.AppendString(d.data, m[key])
	}
	d.data = append(d.data, '}')
}

// metadata reads the part of the object's metadata that belongs to the source.
func (p *dataParser) metadata(m *metav1.ObjectMeta) {
	*m = metav1.ObjectMeta{}
	if p.Peek() != '{' {
		if raw := p.Value(); !isNull(raw) {
			p.fail("data.metadata", "is not an object", nil)
		}
		return
	}
	for p.Open('{'); p.Member(); {
		switch string(p.Key) {
		case "labels":
			m.Labels = p.stringMap("data.metadata.labels")
		case "annotations":
			m.Annotations = p.stringMap("data.metadata.annotations")
		case "ownerReferences":
			readJSON(p, "data.metadata.ownerReferences", &m.OwnerReferences)
		case "generation":
			m.Generation = p.number("data.metadata.generation")
		case "creationTimestamp":
			m.CreationTimestamp = p.time("data.metadata.creationTimestamp")
		default:
			p.Value()
		}
	}
}

func (p *dataParser) stringMap(field string) map[string]string {
	if p.Peek() != '{' {
		if raw := p.Value(); !isNull(raw) {
			p.fail(field, "is not an object", nil)
		}
		return nil
	}
	m := map[string]string{}
	for p.Open('{'); p.Member() && p.Count(1); {
		key := string(p.Key)
		m[key] = p.string(field)
	}
	return m
}

// time reads an RFC 3339 timestamp in whole seconds; null is the zero time.
func (p *dataParser) time(field string) metav1.Time {
	s := p.string(field)
	if s == "" {
		return metav1.Time{}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || !isRFC3339(t) {
		p.fail(field, "is not an RFC 3339 timestamp", nil)
	}
	return metav1.Time{Time: t.Truncate(time.Second).Local()}
}
