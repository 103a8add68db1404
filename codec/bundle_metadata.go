// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Keys in a work's metadata with a meaning in the profile ManifestBundle. Encode sets the first two
// in a [Spec], and Decode adds the others, as agents of the OCM SDK do.
const (
	// AnnotationResourceVersion has the protocol's version of the work: see [WorkRef].
	AnnotationResourceVersion = "cloudevents.open-cluster-management.io/resourceversion"
	// AnnotationSequenceID has the sequence of the last status that the source accepted.
	AnnotationSequenceID = "cloudevents.open-cluster-management.io/sequenceid"
	// AnnotationDataType has the data type of the event that contained the work.
	AnnotationDataType = "cloudevents.open-cluster-management.io/datatype"
	// LabelOriginalSource has the ID of the work's source.
	LabelOriginalSource = "cloudevents.open-cluster-management.io/originalsource"
)

// prefixTracing is the prefix of annotations that are also in the attribute logtracing.
const prefixTracing = "logging.open-cluster-management.io/"

// wireMeta copies the metadata for an event. The UID in events is the resource ID; that of the
// object is local.
func wireMeta(m *metav1.ObjectMeta, w *WorkRef, cluster string) *metav1.ObjectMeta {
	out := *m
	if w.Name != "" && w.Name != w.ResourceID {
		out.Name = w.Name
	}
	out.Namespace, out.UID = cluster, types.UID(w.ResourceID)
	out.ResourceVersion = ""
	out.ManagedFields, out.DeletionGracePeriodSeconds = nil, nil
	out.Labels, out.Annotations = maps.Clone(m.Labels), maps.Clone(m.Annotations)
	return &out
}

func specMeta(m *Spec) *metav1.ObjectMeta {
	var meta metav1.ObjectMeta
	if m.Work != nil {
		meta = m.Work.ObjectMeta
	}
	out := wireMeta(&meta, &m.WorkRef, m.Cluster)
	out.ResourceVersion = strconv.FormatInt(m.Version, 10)
	out.DeletionTimestamp = m.DeletionTimestamp
	// Keys that an agent has set do not belong to the source.
	delete(out.Labels, LabelOriginalSource)
	delete(out.Annotations, AnnotationDataType)
	setKey(&out.Annotations, AnnotationResourceVersion, m.Version)
	setKey(&out.Annotations, AnnotationSequenceID, m.StatusSeq)
	return out
}

func statusMeta(m *Status) *metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Generation: m.Version}
	if m.Metadata != nil {
		meta = *m.Metadata
	}
	out := wireMeta(&meta, &m.WorkRef, m.Cluster)
	noteOrigin(out, m.Source)
	return out
}

// setKey sets a number, or deletes the key for 0: an unversioned work has no version.
func setKey(in *map[string]string, key string, value int64) {
	if value == 0 {
		delete(*in, key)
		return
	}
	if *in == nil {
		*in = map[string]string{}
	}
	(*in)[key] = strconv.FormatInt(value, 10)
}

// noteOrigin sets the keys for the origin of a work.
func noteOrigin(m *metav1.ObjectMeta, source string) {
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	m.Annotations[AnnotationDataType] = bundleType
	m.Labels[LabelOriginalSource] = source
}

// metaTimes reports whether the times in metadata can be written and read again.
func metaTimes(m *metav1.ObjectMeta) bool {
	return isRFC3339(m.CreationTimestamp.Time) && (m.DeletionTimestamp == nil || isRFC3339(m.DeletionTimestamp.Time))
}

// tracingOf returns the annotations for tracing, never nil.
func tracingOf(m *metav1.ObjectMeta) map[string]string {
	out := map[string]string{}
	for key, value := range m.Annotations {
		if strings.HasPrefix(key, prefixTracing) {
			out[key] = value
		}
	}
	return out
}

// bundleStatusHash returns the hash that peers compare: of the status in the form of the API, as
// JSON with sorted keys.
func bundleStatusHash(status *workv1.ManifestWorkStatus) (string, error) {
	if status == nil {
		status = &workv1.ManifestWorkStatus{}
	}
	if !statusTimes(status) {
		return "", &Error{Code: CodeData, Field: "data", Reason: "a condition's time " + reasonTime}
	}
	// Peers use the same conversion, which includes fields of a later API.
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&workv1.ManifestWork{Status: *status})
	if err != nil {
		return "", &Error{Code: CodeData, Field: "data", Reason: "cannot be written as JSON", Err: err}
	}
	text, err := json.Marshal(object["status"])
	if err != nil {
		return "", &Error{Code: CodeData, Field: "data", Reason: "cannot be written as JSON", Err: err}
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
