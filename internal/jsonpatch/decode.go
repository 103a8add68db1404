// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsonpatch

import (
	"encoding/json"
	"fmt"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// OperationsError is returned for a patch of more than [jsontext.MaxOperations] operations.
type OperationsError struct{ Count int }

// Error returns the number and the limit.
func (e *OperationsError) Error() string {
	return fmt.Sprintf("has %d operations: the limit is %d", e.Count, jsontext.MaxOperations)
}

// Patch is a decoded JSON patch.
type Patch []operation

// operation has the members of an operation as parts of the text of the patch. A member that is
// missing or null is nil.
type operation struct{ op, path, from, value []byte }

// Decode reads a JSON patch. The result refers to data. Decode only checks that operations are
// objects. Apply checks their members.
func Decode(data []byte) (Patch, error) {
	var objects []map[string]*json.RawMessage
	switch kind := jsontext.KindOf(data); {
	case !jsontext.Valid(data) || kind != jsontext.Array && kind != jsontext.Null:
		return nil, json.Unmarshal(data, &objects) // decodes nothing
	case kind == jsontext.Null:
		return nil, nil
	}
	count := 0
	for elements := jsontext.Open(data); elements.Next(); {
		count++
	}
	if count > jsontext.MaxOperations {
		return nil, &OperationsError{count}
	}
	p := make(Patch, 0, count)
	for elements := jsontext.Open(data); elements.Next(); {
		o, err := decodeOperation(elements.Value)
		if err != nil {
			return nil, err
		}
		p = append(p, o)
	}
	return p, nil
}

func decodeOperation(element []byte) (o operation, err error) {
	if kind := jsontext.KindOf(element); kind != jsontext.Object && kind != jsontext.Null {
		return o, json.Unmarshal(element, &map[string]*json.RawMessage{}) // decodes nothing
	}
	for members := jsontext.Open(element); members.Next(); {
		value := members.Value
		if jsontext.KindOf(value) == jsontext.Null {
			value = nil
		}
		switch name, _ := jsontext.Text(members.Key); name {
		case "op":
			o.op = value
		case "path":
			o.path = value
		case "from":
			o.from = value
		case "value":
			o.value = value
		}
	}
	return o, nil
}

func textOf(raw []byte, field string) (string, error) {
	if raw == nil {
		if field == "from" {
			return "", fmt.Errorf("operation, missing from field: %w", errMissing)
		}
		return "", fmt.Errorf("operation missing %s field: %w", field, errMissing)
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}

func (o operation) node() node {
	if o.value == nil {
		return node{raw: null}
	}
	return node{raw: o.value}
}
