// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package label has the label of all objects of an application on clusters. The hub adds it, and the
// agent reads it for its log.
package label

import (
	"encoding/json"
	"errors"
)

// Application is the key of the label. Its value is the name of the application.
const Application = "hub.spokewire.io/application"

// Add returns a manifest, in JSON, with the label of its application. Other parts are unchanged. Errors
// contain nothing of the manifest.
func Add(manifest []byte, application string) ([]byte, error) {
	var object, metadata, labels map[string]json.RawMessage
	if err := json.Unmarshal(manifest, &object); err != nil {
		return nil, errors.New("an object is not a mapping")
	}
	if err := json.Unmarshal(object["metadata"], &metadata); err != nil {
		return nil, errors.New("metadata of an object is not a mapping")
	}
	if old := metadata["labels"]; old != nil {
		if err := json.Unmarshal(old, &labels); err != nil {
			return nil, errors.New("metadata.labels of an object is not a mapping")
		}
	}
	if labels == nil {
		labels = map[string]json.RawMessage{}
	}
	var err error
	for _, step := range []struct {
		in    map[string]json.RawMessage
		key   string
		value any
	}{{labels, Application, application}, {metadata, "labels", labels}, {object, "metadata", metadata}} {
		if step.in[step.key], err = json.Marshal(step.value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(object)
}
