// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Action is what was done with an object.
type Action string

const (
	// ActionCreated: it did not exist.
	ActionCreated Action = "created"
	// ActionConfigured: it was ours and was changed.
	ActionConfigured Action = "configured"
	// ActionUnchanged: it is as the manifest has it; nothing was written.
	ActionUnchanged Action = "unchanged"
	// ActionAdopted: it existed and is ours now.
	ActionAdopted Action = "adopted"
	// ActionDeleted: it was deleted, or was gone already.
	ActionDeleted Action = "deleted"
	// ActionReleased: our owner reference was removed, and the object stays.
	ActionReleased Action = "released"
	// ActionRetained: the object is not ours, or an earlier pass has released it. Nothing was written.
	ActionRetained Action = "retained"
	// ActionPending: it is being deleted, or what happened to it is not known yet. Try again later.
	ActionPending Action = "pending"
	// ActionBlocked: a guard kept it from being deleted: Err is a [*PruneBlockedError].
	ActionBlocked Action = "blocked"
	// ActionFailed: the API server, or we, refused: see Err.
	ActionFailed Action = "failed"
)

var actions = []Action{
	ActionCreated, ActionConfigured, ActionUnchanged, ActionAdopted, ActionDeleted,
	ActionReleased, ActionRetained, ActionPending, ActionBlocked, ActionFailed,
}

// Change is what became of one object.
type Change struct {
	Key    Key
	UID    types.UID
	Action Action
	// Live is what Apply has left: the object as it was read, if it is unchanged or only read, or as the API server has answered
	// the last write. It is nil for an object that was not applied.
	Live *unstructured.Unstructured
	// Fields are what Apply would change of an object that exists, ordered by their paths. Only [Applier].Plan returns them. Fields
	// that each write changes, such as resourceVersion and managedFields, are not among them.
	Fields []FieldChange
	// Err is why, for blocked and failed, and for pending where there is something to say.
	Err error
}

// ChangeSet is what became of each object of a call.
type ChangeSet struct {
	Entries []Change
}

// Count returns how many objects had one of the actions.
func (c *ChangeSet) Count(of ...Action) int {
	n := 0
	for i := range c.Entries {
		for _, action := range of {
			if c.Entries[i].Action == action {
				n++
			}
		}
	}
	return n
}

// Get returns what became of an object.
func (c *ChangeSet) Get(key Key) (Change, bool) {
	for _, e := range c.Entries {
		if e.Key == key {
			return e, true
		}
	}
	return Change{}, false
}

// Done reports whether nothing is left to do: no object is pending, blocked or failed.
func (c *ChangeSet) Done() bool { return c.Count(ActionPending, ActionBlocked, ActionFailed) == 0 }

// Err joins the errors of the objects that failed or are blocked.
func (c *ChangeSet) Err() error {
	var errs []error
	for _, e := range c.Entries {
		if e.Action == ActionFailed || e.Action == ActionBlocked {
			errs = append(errs, e.Err)
		}
	}
	return errors.Join(errs...)
}

// String counts the actions: "3 created, 1 failed".
func (c *ChangeSet) String() string {
	var parts []string
	for _, action := range actions {
		if n := c.Count(action); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, action))
		}
	}
	if parts == nil {
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
}
