// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"
)

// EncoderForVersion implements [runtime.NegotiatedSerializer].
func (s crdSerializer) EncoderForVersion(e runtime.Encoder, v runtime.GroupVersioner) runtime.Encoder {
	switch e.Identifier() {
	case plainJSON:
		e = encoder{e}
	case prettyJSON, plainYAML:
		e = converter{e}
	}
	return s.CodecFactory.EncoderForVersion(e, v)
}

// The identifiers of encoders.
var (
	typesOf    = codecs.CodecFactory.SupportedMediaTypes()
	ofJSON, _  = runtime.SerializerInfoForMediaType(typesOf, runtime.ContentTypeJSON)
	ofYAML, _  = runtime.SerializerInfoForMediaType(typesOf, runtime.ContentTypeYAML)
	plainJSON  = ofJSON.Serializer.Identifier()
	prettyJSON = ofJSON.PrettySerializer.Identifier()
	plainYAML  = ofYAML.Serializer.Identifier()
)

// converter writes works in the form of an encoder, with the members that encoder writes.
type converter struct{ runtime.Encoder }

// Encode implements [runtime.Encoder].
func (c converter) Encode(obj runtime.Object, w io.Writer) error {
	switch obj.(type) {
	case *workv1.ManifestWork, *workv1.ManifestWorkList:
	default:
		return c.Encoder.Encode(obj, w)
	}
	var compact bytes.Buffer
	if err := (encoder{ofJSON.Serializer}).Encode(obj, &compact); err != nil {
		return err
	}
	return c.Encoder.Encode(&runtime.Unknown{Raw: compact.Bytes(), ContentType: runtime.ContentTypeJSON}, w)
}

// encoder writes the JSON of works as an API server does: without an empty status, and bookmarks
// without a spec. The bytes of manifests, the largest part of a work, are copied: encoding/json
// would check, compact and escape them again for each response.
type encoder struct{ runtime.Encoder }

// Encode implements [runtime.Encoder].
func (e encoder) Encode(obj runtime.Object, w io.Writer) error {
	b := buffers.Get().(*buffer) //nolint:forcetypeassert // the pool has only these
	defer b.free()
	switch obj := obj.(type) {
	case *workv1.ManifestWork:
		if err := b.work(obj); err != nil {
			return err
		}
		b.WriteByte('\n')
	case *workv1.ManifestWorkList:
		if len(obj.Items) == 0 {
			return e.Encoder.Encode(obj, w)
		}
		if err := b.list(obj, w); err != nil {
			return err
		}
	case *metav1.WatchEvent: // its object is JSON from an encoder
		b.WriteString(`{"type":"` + obj.Type + `","object":`)
		b.Write(bytes.TrimSuffix(obj.Object.Raw, []byte("\n")))
		b.WriteString("}\n")
	default:
		return e.Encoder.Encode(obj, w)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// chunk is the number of bytes that list collects before a write. The API server's handlers
// compress a response if the first write is larger than 128 KiB.
const chunk = 128 << 10

// buffer collects JSON.
type buffer struct {
	bytes.Buffer
	json *json.Encoder // of the buffer
}

var buffers = sync.Pool{New: func() any {
	b := &buffer{}
	b.json = json.NewEncoder(&b.Buffer)
	return b
}}

func (b *buffer) free() {
	if b.Cap() <= 2*chunk {
		b.Reset()
		buffers.Put(b)
	}
}

// value adds the JSON of a value, without the last skip bytes.
func (b *buffer) value(v any, skip int) error {
	if err := b.json.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - skip - len("\n"))
	return nil
}

// list adds the JSON of a list, and writes it in chunks except for the last one.
func (b *buffer) list(list *workv1.ManifestWorkList, w io.Writer) error {
	err := b.value(struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ListMeta `json:"metadata"`
	}{list.TypeMeta, list.ListMeta}, len("}"))
	if err != nil {
		return err
	}
	b.WriteString(`,"items":[`)
	for i := range list.Items {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := b.work(&list.Items[i]); err != nil {
			return err
		}
		if b.Len() > chunk {
			if _, err := b.WriteTo(w); err != nil {
				return err
			}
		}
	}
	b.WriteString("]}\n")
	return nil
}

// work adds the JSON of a work.
func (b *buffer) work(w *workv1.ManifestWork) error {
	err := b.value(struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        *metav1.ObjectMeta `json:"metadata"`
	}{w.TypeMeta, &w.ObjectMeta}, len("}"))
	if err != nil {
		return err
	}
	if w.CreationTimestamp.IsZero() { // a bookmark
		b.WriteByte('}')
		return nil
	}
	b.WriteString(`,"spec":`)
	if err := b.spec(w.Spec); err != nil {
		return err
	}
	status := struct {
		Conditions     []metav1.Condition             `json:"conditions,omitempty"`
		ResourceStatus *workv1.ManifestResourceStatus `json:"resourceStatus,omitempty"`
	}{Conditions: w.Status.Conditions}
	if len(w.Status.ResourceStatus.Manifests) > 0 {
		status.ResourceStatus = &w.Status.ResourceStatus
	}
	if len(status.Conditions) > 0 || status.ResourceStatus != nil {
		b.WriteString(`,"status":`)
		if err := b.value(&status, 0); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// spec adds the JSON of a spec.
func (b *buffer) spec(s workv1.ManifestWorkSpec) error {
	b.WriteString(`{"workload":{`)
	manifests := s.Workload.Manifests
	for i := range manifests {
		if i == 0 {
			b.WriteString(`"manifests":[`)
		} else {
			b.WriteByte(',')
		}
		if raw := manifests[i].Raw; canonical(raw) {
			b.Write(raw)
		} else if err := b.value(&manifests[i], 0); err != nil {
			return err
		}
	}
	if len(manifests) > 0 {
		b.WriteByte(']')
	}
	b.WriteByte('}')
	if s.DeleteOption == nil && len(s.ManifestConfigs) == 0 && s.Executor == nil {
		b.WriteByte('}')
		return nil
	}
	s.Workload = workv1.ManifestsTemplate{}
	const workload = `{"workload":{}` // the first member
	from := b.Len()
	if err := b.value(&s, 0); err != nil {
		return err
	}
	rest := b.Bytes()[from:]
	b.Truncate(from + copy(rest, rest[len(workload):]))
	return nil
}

// The classes of bytes that may change when encoding/json encodes valid JSON.
const (
	plain = iota
	space
	quote
	backslash
	escaped // in strings
)

var classes = [256]uint8{
	' ': space, '\t': space, '\r': space, '\n': space, '"': quote, '\\': backslash,
	'<': escaped, '>': escaped, '&': escaped, 0xe2: escaped, // the first byte of U+2028 and U+2029
}

// canonical reports whether encoding/json would not change JSON: it has no spaces and no
// characters to escape.
func canonical(raw []byte) bool {
	text := false
	for i := 0; i < len(raw); i++ {
		switch classes[raw[i]] {
		case space:
			if !text {
				return false
			}
		case quote:
			text = !text
		case backslash:
			i++
		case escaped:
			return false
		}
	}
	return len(raw) > 0
}
