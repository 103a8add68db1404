// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import "context"

// TriggerType says what happened to a watched object.
type TriggerType string

const (
	// Initial: the watcher began to watch what exists.
	Initial TriggerType = "Initial"
	// Added: the object was created, or began to match the selector.
	Added TriggerType = "Added"
	// Modified: the object was changed.
	Modified TriggerType = "Modified"
	// Deleted: the object was deleted, with its kind perhaps, or does not match the selector any more. Also that there is
	// none now where there may have been one while the watch was interrupted.
	Deleted TriggerType = "Deleted"
	// Resumed: the watch goes on after it was interrupted, with [NotifyAlways], or after access was lost.
	Resumed TriggerType = "Resumed"
	// AccessWasLost: the server refuses the watch, see [AccessLost], or the kind has come back with namespaces.
	AccessWasLost TriggerType = "AccessLost"
)

// Trigger is a reason of a reconcile. Of several changes of one watched object since the last reconcile there is the
// last.
type Trigger struct {
	// Watched is what is watched: the identifier that was given to AddOrUpdateWatcher, without the namespace where the
	// kind has none.
	Watched ObjectIdentifier
	// Type says what happened.
	Type TriggerType
	// Namespace and Name are of the object that it happened to, where there is one: with a selector it is one of many.
	Namespace, Name string
	// ResourceVersion is the object's, or of the deletion.
	ResourceVersion string
}

type triggersKey struct{}

// TriggersFrom returns what caused a reconcile, from the context that Reconcile was called with; nothing where that was
// a requeue alone. A reconcile after one that failed has the triggers of both.
func TriggersFrom(ctx context.Context) []Trigger {
	triggers, _ := ctx.Value(triggersKey{}).([]Trigger)
	return triggers
}
