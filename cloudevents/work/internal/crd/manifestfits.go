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

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// manifestFits reports whether the schema finds no error in a manifest. raw must be valid JSON. Of
// several members with one name the last counts, as in the schema.
func manifestFits(raw []byte) bool {
	var apiVersion, kind, metadata []byte
	for members := jsontext.Open(raw); members.Next(); {
		switch name, _ := jsontext.Text(members.Key); name {
		case "apiVersion":
			apiVersion = members.Value
		case "kind":
			kind = members.Value
		case "metadata":
			metadata = members.Value
		}
	}
	version, _ := jsontext.Text(apiVersion)
	name, _ := jsontext.Text(kind)
	return version != "" && strings.Count(version, "/") <= 1 && kindFits(name) &&
		(metadata == nil || plainMetadata(metadata) || metadataFits(metadata))
}

// kindFits reports whether s is a DNS label, in mixed case, that begins with a letter.
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

// plainMetadata reports whether metadata has only a plain name and namespace, as in most manifests.
func plainMetadata(data []byte) bool {
	for _, member := range []string{`{"name":"`, `,"namespace":"`} {
		rest, ok := bytes.CutPrefix(data, []byte(member))
		if !ok {
			return false
		}
		value, after, ok := bytes.Cut(rest, []byte{'"'})
		if !ok || len(value) > 63 || !isLabel(value) {
			return false
		}
		if data = after; string(data) == "}" {
			return true
		}
	}
	return false
}

// maxMetadata is the limit of members and elements in the metadata of a manifest. An owner with two
// bytes of text takes hundreds of bytes, and its four errors take more.
const maxMetadata = 10_000

func metadataFits(data []byte) bool {
	if jsontext.Count(data, maxMetadata) > maxMetadata {
		return false
	}
	var m metav1.ObjectMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &m); err != nil {
		return false
	}
	if m.Name == "" {
		m.Name = "fakename"
	}
	return len(validation.ValidateObjectMeta(&m, m.Namespace != "", pathSegment, field.NewPath("metadata"))) == 0
}
