// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/spokewire/sdk-go/internal/yamldoc"
)

// header has the fields of a manifest that identify its object.
type header struct{ apiVersion, kind, name, namespace string }

// raw is a part of a text, without a copy.
type raw []byte

// UnmarshalJSON implements [json.Unmarshaler].
func (r *raw) UnmarshalJSON(text []byte) error {
	*r = text
	return nil
}

// parseHeader reads the fields by their exact names, as Kubernetes does. For a struct,
// encoding/json also accepts "Kind" for "kind".
func parseHeader(text []byte) (header, error) {
	var h header
	var top, metadata map[string]raw
	if err := json.Unmarshal(text, &top); err != nil {
		return h, err
	}
	for _, field := range []struct {
		value raw
		into  any
	}{{top["apiVersion"], &h.apiVersion}, {top["kind"], &h.kind}, {top["metadata"], &metadata}} {
		if err := unmarshalGiven(field.value, field.into); err != nil {
			return h, err
		}
	}
	return h, errors.Join(unmarshalGiven(metadata["name"], &h.name),
		unmarshalGiven(metadata["namespace"], &h.namespace))
}

func unmarshalGiven(value raw, into any) error {
	if value == nil {
		return nil
	}
	return json.Unmarshal(value, into)
}

// ParseObject returns the identity of the object in a manifest. It returns a [*Problem] with
// FaultBadManifest if the manifest is not a single YAML or JSON object with an apiVersion, a kind and a
// name. The error has no content of the manifest.
func ParseObject(manifest []byte) (Object, error) {
	bad := func(what string) (Object, error) { return Object{}, &Problem{Fault: FaultBadManifest, What: what} }
	if isJSON := json.Valid(manifest); !isJSON && len(manifest) > yamldoc.MaxBytes {
		_, err := yamldoc.JSON(manifest)
		return bad(err.Error())
	} else if !isJSON && severalDocuments(manifest) {
		return bad("the manifest has more than one document: add each as a resource of its own")
	}
	// JSON is the fast path. Most other texts fail at the first byte.
	h, err := parseHeader(manifest)
	if err != nil {
		// The conversion to JSON rejects names that YAML does not read as strings, for example y or
		// 1. Kubernetes also rejects them.
		var text []byte
		if text, err = yamldoc.JSON(manifest); err == nil {
			h, err = parseHeader(text)
		}
		if errors.As(err, new(*yamldoc.LimitError)) {
			return bad(err.Error())
		}
	}
	switch {
	case err != nil:
		// the parser's error quotes the manifest
		return bad("the manifest is neither a YAML nor a JSON object with texts for apiVersion, kind and metadata.name")
	case h.apiVersion == "":
		return bad("the manifest has no apiVersion")
	case h.kind == "":
		return bad("the manifest has no kind")
	case h.name == "":
		return bad("the manifest has no metadata.name")
	}
	group := ""
	if i := strings.LastIndexByte(h.apiVersion, '/'); i >= 0 {
		group = h.apiVersion[:i]
	}
	return Object{Group: group, Kind: h.kind, Namespace: h.namespace, Name: h.name}, nil
}

// jsonOf returns a manifest as JSON.
func jsonOf(manifest []byte) ([]byte, error) {
	if json.Valid(manifest) {
		return manifest, nil
	}
	return yamldoc.JSON(manifest)
}

// severalDocuments finds content that a parser of one document would silently ignore: JSON after
// JSON, and content after a line --- or ... that itself follows content. In a block of text such a
// line is indented.
func severalDocuments(manifest []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(manifest))
	if decoder.Decode(new(json.RawMessage)) == nil {
		if rest := bytes.TrimSpace(manifest[decoder.InputOffset():]); len(rest) > 0 && rest[0] == '{' {
			return true
		}
	}
	content, separated := false, false
	for line := range bytes.FieldsFuncSeq(manifest, func(r rune) bool { return r == '\n' || r == '\r' }) {
		text := bytes.TrimRight(line, " \t")
		switch {
		case len(text) == 0, text[0] == '#', text[0] == '%':
		case separator(text):
			separated = content
		case separated:
			return true
		default:
			content = true
		}
	}
	return false
}

// separator reports whether a line ends a document.
func separator(line []byte) bool {
	mark, _, _ := bytes.Cut(bytes.ReplaceAll(line, []byte("\t"), []byte(" ")), []byte(" "))
	return string(mark) == "---" || string(mark) == "..."
}
