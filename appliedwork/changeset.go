// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Action is the result of a call for one object.
type Action string

const (
	// ActionCreated: the object was created.
	ActionCreated Action = "created"
	// ActionConfigured: the object was ours and was changed.
	ActionConfigured Action = "configured"
	// ActionUnchanged: the object matches its manifest, and was not written.
	ActionUnchanged Action = "unchanged"
	// ActionAdopted: the object existed, and was adopted.
	ActionAdopted Action = "adopted"
	// ActionDeleted: the object was deleted, or was gone already.
	ActionDeleted Action = "deleted"
	// ActionReleased: our owner reference was removed, and the object stays.
	ActionReleased Action = "released"
	// ActionRetained: the object was not written: it is not ours, was released before, or has
	// StrategyReadOnly.
	ActionRetained Action = "retained"
	// ActionPending: the object is being deleted, or the outcome is not known yet. Try again later.
	// In a plan: the API server cannot check it yet.
	ActionPending Action = "pending"
	// ActionBlocked: a guard prevented the deletion. Err is a [*PruneBlockedError].
	ActionBlocked Action = "blocked"
	// ActionFailed: the API server or this package refused the object, see Err. After an
	// [*OwnershipConflictError], the fields without a conflict may have been applied.
	ActionFailed Action = "failed"
)

var actions = []Action{
	ActionCreated, ActionConfigured, ActionUnchanged, ActionAdopted, ActionDeleted,
	ActionReleased, ActionRetained, ActionPending, ActionBlocked, ActionFailed,
}

// Change is the result for one object.
type Change struct {
	Key    Key
	UID    types.UID
	Action Action
	// Live is the object after Apply, as it was last read or written. Nil for an object that was
	// not applied.
	Live *unstructured.Unstructured
	// Fields are the fields of an existing object that Apply would change, ordered by their paths,
	// without those that change with each write. Only [Applier.Plan] returns them.
	Fields []FieldChange
	// Err is the reason for ActionBlocked and ActionFailed. It may also be set for ActionPending.
	Err error
}

// FieldChange is a field of an object that Apply would change.
type FieldChange struct {
	// Path has the syntax of the API server's conflicts:
	// .spec.template.spec.containers[name="web"].image. List items without names have their index.
	Path string
	// Before and After are the values. Nil means that the field does not exist. A value of a
	// Secret's data is "(redacted)".
	Before, After any
}

// String returns the change on one line.
func (c FieldChange) String() string { return fmt.Sprintf("%s: %v -> %v", c.Path, c.Before, c.After) }

// ChangeSet is the result of a call, with a Change for each object.
type ChangeSet struct {
	Entries []Change
}

// Count returns the number of objects with one of the actions.
func (c *ChangeSet) Count(of ...Action) int {
	n := 0
	for i := range c.Entries {
		if slices.Contains(of, c.Entries[i].Action) {
			n++
		}
	}
	return n
}

// Get returns the change of an object.
func (c *ChangeSet) Get(key Key) (Change, bool) {
	for _, e := range c.Entries {
		if e.Key == key {
			return e, true
		}
	}
	return Change{}, false
}

// Done reports whether no object is pending, blocked or failed.
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

// String returns the number of objects for each action: "3 created, 1 failed".
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
