// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package connector

import (
	"context"
	"encoding/json"

	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/internal/fielddiff"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Differ is an optional interface of a Connector that can predict an Apply and a Delete.
type Differ interface {
	// Diff returns a change for each resource of batch.Apply and then for each of batch.Delete, in
	// their order. The engine rejects another number of changes. If the change of one object cannot
	// be determined, it is a ChangeKindUnknown. An error concerns the whole cluster, and has a
	// class like an error of Apply.
	Diff(ctx context.Context, batch DiffBatch) ([]Change, error)
}

// DiffBatch has the resources of one app on one cluster. Drivers must not change it.
type DiffBatch struct {
	AppContextID, App string
	Cluster           appcontext.ClusterID
	Apply, Delete     []appcontext.Resource
	// Holder is as in [Batch].
	Holder func(ctx context.Context, object appcontext.Object) (string, error)
}

// ChangeKind is the kind of a change of an object.
type ChangeKind string

// The kinds of changes.
const (
	ChangeKindNone    ChangeKind = "None"    // it does not change
	ChangeKindCreate  ChangeKind = "Create"  // it does not exist, and would be created
	ChangeKindUpdate  ChangeKind = "Update"  // some of its fields would change
	ChangeKindReplace ChangeKind = "Replace" // it would be deleted and created again, because immutable fields change
	ChangeKindDelete  ChangeKind = "Delete"  // it would be deleted
	ChangeKindRefused ChangeKind = "Refused" // the cluster would reject it
	ChangeKindUnknown ChangeKind = "Unknown" // the driver cannot find out
)

// Change is a change that an event would make to an object.
type Change struct {
	appcontext.Object
	Kind ChangeKind `json:"change"`
	// Fields has the changes of fields, ordered by path. For ChangeKindReplace it has only fields
	// of the manifest, because the values that the cluster would set in the new object are unknown.
	Fields []FieldChange `json:"fields,omitempty"`
	// FieldsOmitted counts fields beyond the limits.
	FieldsOmitted int `json:"fieldsOmitted,omitempty"`
	// Message has the reason for ChangeKindRefused and ChangeKindUnknown. For other kinds it names
	// the parts that were not checked. It has no content of the object.
	Message string `json:"message,omitempty"`
}

// FieldChange is the change of a field.
type FieldChange struct {
	// Path has the format of the API server's conflicts:
	// .spec.template.spec.containers[name="web"].image. Items without names have an index.
	Path string `json:"path"`
	// Before and After are the values as JSON, or "" for no field. A value of more than 512 bytes
	// ends with "…". A value of a Secret is "(redacted)".
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Limits of the fields of one object, in bytes.
const (
	maxFieldValue  = 512
	maxFieldsBytes = 16 << 10
)

// SetFields sets Fields and FieldsOmitted to the differences between two objects of decoded JSON.
// It redacts the values of Secrets, and omits fields after 16 KiB.
func (c *Change) SetFields(before, after map[string]any) {
	changes := fielddiff.Between(before, after)
	if c.Group == "" && c.Object.Kind == "Secret" {
		fielddiff.Redact(changes)
	}
	size := 0
	for i := range changes {
		f := FieldChange{cut.Text(changes[i].Path, maxFieldValue), valueText(changes[i].Before), valueText(changes[i].After)}
		if size += len(f.Path) + len(f.Before) + len(f.After); size > maxFieldsBytes {
			c.FieldsOmitted = len(changes) - i
			return
		}
		c.Fields = append(c.Fields, f)
	}
}

func valueText(v any) string {
	if v == nil {
		return ""
	}
	if v == any(fielddiff.Redacted) {
		return fielddiff.Redacted
	}
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return cut.Text(string(text), maxFieldValue)
}
