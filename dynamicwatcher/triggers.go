// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import "context"

// TriggerType is the kind of change of a watched object.
type TriggerType string

const (
	// TriggerInitial: the watcher began to watch an object that exists.
	TriggerInitial TriggerType = "Initial"
	// TriggerAdded: the object was created, or began to match the selector.
	TriggerAdded TriggerType = "Added"
	// TriggerModified: the object was changed.
	TriggerModified TriggerType = "Modified"
	// TriggerDeleted: the object or its kind was deleted, or the object does not match the selector
	// any more. Also: the object does not exist, and may have existed while no watch delivered its
	// changes.
	TriggerDeleted TriggerType = "Deleted"
	// TriggerResumed: the watch is active again after lost access, or, with [NotifyAlways], after
	// any interruption. Also: an object may have matched the selector while no watch delivered its
	// changes.
	TriggerResumed TriggerType = "Resumed"
	// TriggerAccessLost: the server refuses the watch, see [AccessLost], or the identifier lacks
	// the namespace of a kind that was created again as a namespaced kind.
	TriggerAccessLost TriggerType = "AccessLost"
)

// Trigger is a reason for a reconcile. Several changes of one watched object cause one Trigger, for
// the last change.
type Trigger struct {
	// Watched is the identifier that was passed to AddOrUpdateWatcher, without a namespace if the
	// kind has none.
	Watched ObjectIdentifier
	// Type is the kind of change.
	Type TriggerType
	// Namespace and Name are those of the changed object, which is one of many if Watched has a
	// selector. They may be empty.
	Namespace, Name string
	// ResourceVersion is the version of the object, or of its deletion.
	ResourceVersion string
}

type triggersKey struct{}

// TriggersFrom returns the reasons for a reconcile, from the context of Reconcile. It returns nil
// if a requeue was the only reason. A retry after an error also has the triggers of the failed
// reconcile.
func TriggersFrom(ctx context.Context) []Trigger {
	triggers, _ := ctx.Value(triggersKey{}).([]Trigger)
	return triggers
}
