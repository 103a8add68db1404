// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package workdata writes and reads the data of status events: that of the enhancement, and that of
// the OCM SDK's bundles. Its callers check the times of a status. It also reads the records of
// works in stores.
package workdata

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// Limits are the largest nesting depth and the largest number of elements of data.
type Limits struct{ Depth, Elements int }

func (l Limits) reader(data []byte) jsontext.Reader {
	return jsontext.NewReader(data, l.Depth, l.Elements)
}

// statusData is the data of a status event: the API's status, with fields of a later API, under the
// enhancement's names. Outer fields hide inner fields of the same name.
type statusData struct {
	workv1.ManifestWorkStatus
	Conditions     []metav1.Condition `json:"conditions"`
	ResourceStatus resourceStatusData `json:"resourceStatus"`
}

type resourceStatusData struct {
	workv1.ManifestResourceStatus
	ManifestConditions []workv1.ManifestCondition `json:"manifestConditions"`
}

// bundleStatus is the data of a status event. Missing lists stay missing: peers hash the data that
// they read.
type bundleStatus struct {
	Conditions     []metav1.Condition         `json:"conditions"`
	ResourceStatus []workv1.ManifestCondition `json:"resourceStatus,omitempty"`
}

// Marshal writes the data of the enhancement.
func Marshal(s *workv1.ManifestWorkStatus) ([]byte, error) {
	if !known() {
		return marshalLater(s)
	}
	w := statusWriter{data: make([]byte, 0, statusSize(s))}
	w.status(s)
	return w.data, nil
}

// Canonical writes the same data in the form of RFC 8785.
func Canonical(s *workv1.ManifestWorkStatus) ([]byte, error) {
	if !known() {
		data, err := marshalLater(s)
		if err != nil {
			return nil, err
		}
		return jsontext.Canonical(data)
	}
	w := statusWriter{data: make([]byte, 0, statusSize(s)), canonical: true}
	w.status(s)
	return w.data, nil
}

// marshalLater writes a status of a later API with unknown fields.
func marshalLater(s *workv1.ManifestWorkStatus) ([]byte, error) {
	data := statusData{ManifestWorkStatus: *s, Conditions: s.Conditions}
	data.ResourceStatus.ManifestResourceStatus = s.ResourceStatus
	data.ResourceStatus.Manifests = nil
	if data.Conditions == nil {
		data.Conditions = []metav1.Condition{}
	}
	data.ResourceStatus.ManifestConditions = presentConditions(s.ResourceStatus.Manifests)
	return json.Marshal(data)
}

// presentConditions returns the list, and the conditions of each entry, without nil: the API
// requires them, and some stores return an empty list as nil. It does not change list.
func presentConditions(list []workv1.ManifestCondition) []workv1.ManifestCondition {
	out := list
	for i := range list {
		if list[i].Conditions != nil {
			continue
		}
		if &out[0] == &list[0] {
			out = slices.Clone(list)
		}
		out[i].Conditions = []metav1.Condition{}
	}
	if out == nil {
		out = []workv1.ManifestCondition{}
	}
	return out
}

// Unmarshal reads the data of the enhancement. It accepts the API's own names as well.
func Unmarshal(data []byte, l Limits) (*workv1.ManifestWorkStatus, error) {
	if s, ok := parseStatus(data, l, status); ok {
		return s, nil
	}
	return reflectStatus(data, l)
}

func reflectStatus(raw []byte, l Limits) (*workv1.ManifestWorkStatus, error) {
	var data statusData
	if err := l.unmarshalObject(raw, &data); err != nil {
		return nil, err
	}
	s := data.ManifestWorkStatus
	s.Conditions = data.Conditions
	s.ResourceStatus = data.ResourceStatus.ManifestResourceStatus
	if data.ResourceStatus.ManifestConditions != nil {
		s.ResourceStatus.Manifests = data.ResourceStatus.ManifestConditions
	}
	return &s, nil
}

// MarshalBundle writes the data of a bundle.
func MarshalBundle(s *workv1.ManifestWorkStatus) ([]byte, error) {
	return json.Marshal(bundleStatus{s.Conditions, s.ResourceStatus.Manifests})
}

// UnmarshalBundle reads the data of a bundle.
func UnmarshalBundle(data []byte, l Limits) (*workv1.ManifestWorkStatus, error) {
	if s, ok := parseStatus(data, l, bundle); ok {
		return s, nil
	}
	return reflectBundleStatus(data, l)
}

func reflectBundleStatus(raw []byte, l Limits) (*workv1.ManifestWorkStatus, error) {
	var data bundleStatus
	if err := l.unmarshalObject(raw, &data); err != nil {
		return nil, err
	}
	s := &workv1.ManifestWorkStatus{Conditions: data.Conditions}
	s.ResourceStatus.Manifests = data.ResourceStatus
	return s, nil
}

// unmarshalObject decodes an object. It refuses other values, such as null, which encoding/json
// would accept as a status.
func (l Limits) unmarshalObject(raw []byte, target any) error {
	r := l.reader(raw)
	if r.Open('{'); r.Err() != nil || !r.Count(jsontext.Count(raw, l.Elements)) {
		return r.Err()
	}
	return utiljson.Unmarshal(raw, target)
}
