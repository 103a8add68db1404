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

// header is what identifies an object in its manifest.
type header struct{ apiVersion, kind, name, namespace string }

// raw is a part of a text, without a copy.
type raw []byte

// UnmarshalJSON implements [json.Unmarshaler].
func (r *raw) UnmarshalJSON(text []byte) error {
	*r = text
	return nil
}

// parseHeader reads the fields by their exact names, as Kubernetes does; encoding/json takes "Kind" for "kind" in a struct.
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
	return h, errors.Join(unmarshalGiven(metadata["name"], &h.name), unmarshalGiven(metadata["namespace"], &h.namespace))
}

func unmarshalGiven(value raw, into any) error {
	if value == nil {
		return nil
	}
	return json.Unmarshal(value, into)
}

// ParseObject returns the identity of the object in a manifest. It returns a [*Problem] with
// BadManifest if the manifest is not a single YAML or JSON object with an apiVersion, a kind and a
// name. The error has no content of the manifest.
func ParseObject(manifest []byte) (Object, error) {
	bad := func(what string) (Object, error) { return Object{}, &Problem{Fault: BadManifest, What: what} }
	if isJSON := json.Valid(manifest); !isJSON && len(manifest) > yamldoc.MaxBytes {
		_, err := yamldoc.JSON(manifest)
		return bad(err.Error())
	} else if !isJSON && severalDocuments(manifest) {
		return bad("the manifest has more than one document: add each as a resource of its own")
	}
	// JSON is the fast way; most of what is no JSON ends at the first byte.
	h, err := parseHeader(manifest)
	if err != nil {
		// By way of JSON a name like y or 1, which YAML reads as something else than text, is refused as Kubernetes refuses it.
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
		return bad("the manifest is neither a YAML nor a JSON object with texts for apiVersion, kind and metadata.name") // the parser's error quotes what it read
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

// severalDocuments looks for what a parser of one document would pass over in silence: JSON after JSON, and content after a line
// --- or ... that follows on content. Such a line in a block of text is indented.
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
