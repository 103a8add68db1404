// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

// delivery is the watch that delivers the changes of an [object].
type delivery int8

const (
	// deliveryNone: the object has no watch before Start and after its end, and while it waits for
	// the shared watch.
	deliveryNone delivery = iota
	deliveryOwn
	deliveryShared
	// deliveryReturning: the shared watch delivers until the object's own watch has sent the
	// existing objects.
	deliveryReturning
)

// deliveryStep is an event that may change the delivery.
type deliveryStep int8

const (
	ownStarted deliveryStep = iota
	ownEnded
	shareStarted // this ends the object's own watch
	shareEnded
)

// after returns the delivery that follows a step. Other steps do not change it.
func (d delivery) after(s deliveryStep) delivery {
	switch {
	case s == shareStarted:
		return deliveryShared
	case d == deliveryNone && s == ownStarted, d == deliveryReturning && s == shareEnded:
		return deliveryOwn
	case d == deliveryShared && s == ownStarted:
		return deliveryReturning
	case d == deliveryReturning && s == ownEnded:
		return deliveryShared
	case d == deliveryOwn && s == ownEnded, d == deliveryShared && s == shareEnded:
		return deliveryNone
	}
	return d
}

// own reports whether the object has its own watch.
func (d delivery) own() bool { return d == deliveryOwn || d == deliveryReturning }

// shared reports whether the object shares a watch.
func (d delivery) shared() bool { return d == deliveryShared || d == deliveryReturning }

// listPhase is the state of the first list of an [object].
type listPhase int8

const (
	// listPending: the server has not sent all existing objects.
	listPending listPhase = iota
	// listInherited: like listPending, but the object replaces another whose list was complete. See
	// object.unscope.
	listInherited
	// listRefused: the server has refused the watch.
	listRefused
	// listDropped: the last watcher was removed before the list was complete.
	listDropped
	// listComplete: the existing objects are known.
	listComplete
)

// listStep is an event that may change the phase of the first list.
type listStep int8

const (
	listSent listStep = iota
	refusalSent
	objectDropped
)

// after returns the phase that follows a step. Other steps do not change it.
func (p listPhase) after(s listStep) listPhase {
	switch {
	case s == listSent, p == listInherited:
		return listComplete
	case p == listPending && s == refusalSent:
		return listRefused
	case p == listPending && s == objectDropped:
		return listDropped
	}
	return p
}

// settled reports whether callers need not wait for the list.
func (p listPhase) settled() bool { return p >= listRefused }

// synced reports whether changes of the object can be recognized.
func (p listPhase) synced() bool { return p == listInherited || p == listComplete }

// lifecycle is the state of a [Watcher]. It changes in the order of its constants.
type lifecycle int

const (
	created lifecycle = iota
	running
	stopped
)
