// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package statusdata

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
func (w *statusWriter) name(name string) *statusWriter {
	if w.data[len(w.data)-1] != '{' {
		w.data = append(w.data, ',')
	}
	w.data = append(append(append(w.data, '"'), name...), '"', ':')
	return w
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

func writeList[T any](w *statusWriter, name string, list []T, of object[T]) {
	w.name(name)
	w.data = append(w.data, '[')
	for i := range list {
		if i > 0 {
			w.data = append(w.data, ',')
		}
		writeObject(w, &list[i], of)
	}
	w.data = append(w.data, ']')
}

func writeObject[T any](w *statusWriter, from *T, of object[T]) {
	members := of.members
	if w.canonical {
		members = of.sorted
	}
	w.data = append(w.data, '{')
	for i := range members {
		w.member(members[i].name, members[i].at(from))
	}
	w.data = append(w.data, '}')
}

// member writes a member. It omits a generation of 0, missing values, and an empty feedback.
func (w *statusWriter) member(name string, at any) {
	switch from := at.(type) {
	case *string:
		w.text(name, *from)
	case *int32:
		w.integer(name, int64(*from))
	case *int64:
		if *from != 0 {
			w.integer(name, *from)
		}
	case *metav1.Time:
		w.time(name, *from)
	case **string:
		if *from != nil {
			w.text(name, **from)
		}
	case **int64:
		if *from != nil {
			w.integer(name, **from)
		}
	case **bool:
		if *from != nil {
			w.name(name)
			w.data = strconv.AppendBool(w.data, **from)
		}
	case *[]metav1.Condition:
		writeList(w, name, *from, condition)
	case *[]workv1.ManifestCondition:
		writeList(w, name, *from, manifest)
	case *[]workv1.FeedbackValue:
		if len(*from) > 0 {
			writeList(w, name, *from, value)
		}
	case *workv1.ManifestResourceStatus:
		writeObject(w.name(name), from, resources)
	case *workv1.ManifestResourceMeta:
		writeObject(w.name(name), from, resource)
	case *workv1.StatusFeedbackResult:
		writeObject(w.name(name), from, feedback)
	case *workv1.FieldValue:
		writeObject(w.name(name), from, fieldValue)
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
