// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext

import (
	"bytes"
	"encoding/json"
	"strings"

	"sigs.k8s.io/yaml"
)

// header is what identifies an object in its manifest.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

// ParseObject reads what identifies the object of a manifest. It returns a [*Problem] with BadManifest for what is not a
// single YAML or JSON object with an apiVersion, a kind and a name. The error never has the manifest's content.
func ParseObject(manifest []byte) (Object, error) {
	bad := func(what string) (Object, error) { return Object{}, &Problem{Fault: BadManifest, What: what} }
	if severalDocuments(manifest) {
		return bad("the manifest has more than one YAML document: add each as a resource of its own")
	}
	var h header
	// JSON is the fast way; most of what is no JSON ends at the first byte.
	if err := json.Unmarshal(manifest, &h); err != nil {
		h = header{}
		// By way of JSON a name like y or 1, which YAML reads as something else than text, is refused as Kubernetes refuses it.
		text, err := yaml.YAMLToJSON(manifest)
		if err != nil || json.Unmarshal(text, &h) != nil {
			return bad("the manifest is neither a YAML nor a JSON object with texts for apiVersion, kind and metadata.name") // the parser's error quotes what it read
		}
	}
	switch {
	case h.APIVersion == "":
		return bad("the manifest has no apiVersion")
	case h.Kind == "":
		return bad("the manifest has no kind")
	case h.Metadata.Name == "":
		return bad("the manifest has no metadata.name")
	}
	group := ""
	if i := strings.LastIndexByte(h.APIVersion, '/'); i >= 0 {
		group = h.APIVersion[:i]
	}
	return Object{Group: group, Kind: h.Kind, Namespace: h.Metadata.Namespace, Name: h.Metadata.Name}, nil
}

// severalDocuments looks for a line --- with content before and after it. Such a line in a block of text is indented.
func severalDocuments(manifest []byte) bool {
	content, separated := false, false
	for line := range bytes.Lines(manifest) {
		text := bytes.TrimRight(line, " \t\r\n")
		switch {
		case len(text) == 0, text[0] == '#', text[0] == '%':
		case bytes.HasPrefix(text, []byte("---")) && (len(text) == 3 || text[3] == ' '):
			separated = content
		case separated:
			return true
		default:
			content = true
		}
	}
	return false
}
