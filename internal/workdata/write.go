// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workdata

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// statusWriter writes the data of a status event, in the member order of the API, or in that of RFC
// 8785 for the hash. It always writes lists. So an empty status differs from a missing one, and nil
// and empty lists have the same hash. The API requires them, and some stores return an empty list
// as nil.
type statusWriter struct {
	data []byte
	// canonical selects members sorted by name, and integers as doubles.
	canonical bool
}

// statusSize estimates the encoded size of a status in bytes, rather too high.
func statusSize(s *workv1.ManifestWorkStatus) int {
	size := 64 + conditionsSize(s.Conditions)
	for i := range s.ResourceStatus.Manifests {
		m := &s.ResourceStatus.Manifests[i]
		r := &m.ResourceMeta
		size += 160 + len(r.Group) + len(r.Version) + len(r.Kind) + len(r.Resource) + len(r.Name) + len(r.Namespace) +
			128*len(m.StatusFeedbacks.Values) + conditionsSize(m.Conditions)
	}
	return size
}

func conditionsSize(list []metav1.Condition) int {
	size := 120 * len(list)
	for i := range list {
		size += len(list[i].Type) + len(list[i].Status) + len(list[i].Reason) + len(list[i].Message)
	}
	return size
}

// name begins a member; the first of an object has the brace before it.
func (w *statusWriter) name(name string) {
	if w.data[len(w.data)-1] != '{' {
		w.data = append(w.data, ',')
	}
	w.data = append(append(append(w.data, '"'), name...), '"', ':')
}

func (w *statusWriter) text(name, value string) {
	w.name(name)
	w.data = jsontext.AppendString(w.data, value)
}

func (w *statusWriter) integer(name string, n int64) {
	w.name(name)
	const exact = 1 << 53
	if w.canonical && (n > exact || n < -exact) {
		w.data = jsontext.AppendCanonicalFloat(w.data, float64(n))
		return
	}
	w.data = strconv.AppendInt(w.data, n, 10)
}

func (w *statusWriter) open()  { w.data = append(w.data, '{') }
func (w *statusWriter) close() { w.data = append(w.data, '}') }

// list begins a member that is a list; entry begins its i-th object.
func (w *statusWriter) list(name string) {
	w.name(name)
	w.data = append(w.data, '[')
}

func (w *statusWriter) entry(i int) {
	if i > 0 {
		w.data = append(w.data, ',')
	}
	w.open()
}

func (w *statusWriter) listEnd() { w.data = append(w.data, ']') }

func (w *statusWriter) status(s *workv1.ManifestWorkStatus) {
	w.open()
	w.conditions(s.Conditions)
	w.name("resourceStatus")
	w.open()
	w.list("manifestConditions")
	for i := range s.ResourceStatus.Manifests {
		w.entry(i)
		w.manifest(&s.ResourceStatus.Manifests[i])
		w.close()
	}
	w.listEnd()
	w.close()
	w.close()
}

func (w *statusWriter) conditions(conditions []metav1.Condition) {
	w.list("conditions")
	for i := range conditions {
		w.entry(i)
		w.condition(&conditions[i])
		w.close()
	}
	w.listEnd()
}

func (w *statusWriter) condition(c *metav1.Condition) {
	if w.canonical {
		w.time("lastTransitionTime", c.LastTransitionTime)
		w.text("message", c.Message)
		w.generation(c)
		w.text("reason", c.Reason)
		w.text("status", string(c.Status))
		w.text("type", c.Type)
		return
	}
	w.text("type", c.Type)
	w.text("status", string(c.Status))
	w.generation(c)
	w.time("lastTransitionTime", c.LastTransitionTime)
	w.text("reason", c.Reason)
	w.text("message", c.Message)
}

func (w *statusWriter) generation(c *metav1.Condition) {
	if c.ObservedGeneration != 0 {
		w.integer("observedGeneration", c.ObservedGeneration)
	}
}

// time writes a time in the form of metav1.Time.
func (w *statusWriter) time(name string, t metav1.Time) {
	w.name(name)
	if t.IsZero() {
		w.data = append(w.data, "null"...)
		return
	}
	w.data = append(w.data, '"')
	w.data = append(t.UTC().AppendFormat(w.data, time.RFC3339), '"')
}

func (w *statusWriter) manifest(m *workv1.ManifestCondition) {
	if w.canonical {
		w.conditions(m.Conditions)
	}
	w.name("resourceMeta")
	w.open()
	w.resource(&m.ResourceMeta)
	w.close()
	w.name("statusFeedback")
	w.open()
	if values := m.StatusFeedbacks.Values; len(values) > 0 {
		w.list("values")
		for i := range values {
			w.entry(i)
			w.feedback(&values[i])
			w.close()
		}
		w.listEnd()
	}
	w.close()
	if !w.canonical {
		w.conditions(m.Conditions)
	}
}

func (w *statusWriter) resource(r *workv1.ManifestResourceMeta) {
	if w.canonical {
		w.text("group", r.Group)
		w.text("kind", r.Kind)
		w.text("name", r.Name)
		w.text("namespace", r.Namespace)
		w.integer("ordinal", int64(r.Ordinal))
		w.text("resource", r.Resource)
		w.text("version", r.Version)
		return
	}
	w.integer("ordinal", int64(r.Ordinal))
	w.text("group", r.Group)
	w.text("version", r.Version)
	w.text("kind", r.Kind)
	w.text("resource", r.Resource)
	w.text("name", r.Name)
	w.text("namespace", r.Namespace)
}

func (w *statusWriter) feedback(v *workv1.FeedbackValue) {
	if !w.canonical {
		w.text("name", v.Name)
	}
	w.name("fieldValue")
	w.open()
	w.value(&v.Value)
	w.close()
	if w.canonical {
		w.text("name", v.Name)
	}
}

func (w *statusWriter) value(v *workv1.FieldValue) {
	if w.canonical {
		w.boolean(v)
		w.optionalInteger(v)
		w.optionalText("jsonRaw", v.JsonRaw)
		w.optionalText("string", v.String)
		w.text("type", string(v.Type))
		return
	}
	w.text("type", string(v.Type))
	w.optionalInteger(v)
	w.optionalText("string", v.String)
	w.boolean(v)
	w.optionalText("jsonRaw", v.JsonRaw)
}

func (w *statusWriter) optionalInteger(v *workv1.FieldValue) {
	if v.Integer != nil {
		w.integer("integer", *v.Integer)
	}
}

func (w *statusWriter) boolean(v *workv1.FieldValue) {
	if v.Boolean != nil {
		w.name("boolean")
		w.data = strconv.AppendBool(w.data, *v.Boolean)
	}
}

func (w *statusWriter) optionalText(name string, value *string) {
	if value != nil {
		w.text(name, *value)
	}
}
