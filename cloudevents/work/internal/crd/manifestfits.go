// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"bytes"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// manifest is as much of an embedded object as its check needs. The rest is not decoded.
type manifest struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
}

func manifestFits(raw []byte) bool {
	// What is not an object decodes into no field, or is an error.
	var m manifest
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &m); err != nil {
		return false
	}
	return m.APIVersion != "" && strings.Count(m.APIVersion, "/") <= 1 && kindFits(m.Kind) && !m.Metadata.wrong
}

// kindFits is a DNS label, in mixed case, that begins with a letter.
func kindFits(s string) bool {
	if s == "" || len(s) > 63 || !isLower(s[0]) && !isUpper(s[0]) || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlphaNum(c) && c != '-' {
			return false
		}
	}
	return true
}

// metadata checks the metadata of a manifest where it stands, without a copy.
type metadata struct{ wrong bool }

// UnmarshalJSON never returns an error: what is wrong is Validate's to say.
func (m *metadata) UnmarshalJSON(data []byte) error {
	m.wrong = !plainMetadata(data) && !metadataFits(data)
	return nil
}

// plainMetadata recognises metadata with nothing but a plain name and namespace, which most manifests have.
func plainMetadata(data []byte) bool {
	for _, member := range []string{`{"name":"`, `,"namespace":"`} {
		rest, ok := bytes.CutPrefix(data, []byte(member))
		if !ok {
			return false
		}
		value, after, ok := bytes.Cut(rest, []byte{'"'})
		if !ok || len(value) > 63 || !plainLabel(value) {
			return false
		}
		if data = after; string(data) == "}" {
			return true
		}
	}
	return false
}

func plainLabel(s []byte) bool {
	if len(s) == 0 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range s {
		if !isLower(c) && !isDigit(c) && c != '-' {
			return false
		}
	}
	return true
}

func metadataFits(data []byte) bool {
	var m metav1.ObjectMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &m); err != nil {
		return false
	}
	if m.Name == "" {
		m.Name = "fakename"
	}
	return len(validation.ValidateObjectMeta(&m, m.Namespace != "", pathSegment, field.NewPath("metadata"))) == 0
}
