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
	// deliveryReturning: the shared watch delivers until the object's own watch is synced.
	deliveryReturning
)

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

func (d delivery) own() bool { return d == deliveryOwn || d == deliveryReturning }

func (d delivery) shared() bool { return d == deliveryShared || d == deliveryReturning }

// listPhase is the state of the first list of an [object].
type listPhase int8

const (
	listPending listPhase = iota
	// listInherited: like listPending, but the list of the object that this one replaces was
	// complete. See object.unscope.
	listInherited
	listRefused
	// listDropped: the last watcher was removed before the list was complete.
	listDropped
	listComplete
)

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
