// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package stream

// connectionPhase is the state of the connection of a [shard].
type connectionPhase int

const (
	disconnected connectionPhase = iota
	dialing
	connected
)

type connectionStep int

const (
	dialStarted connectionStep = iota
	dialFailed
	dialDone
	connectionLost // or idle: it may end without an error
)

// after returns the phase that follows a step. Other steps do not change it.
func (p connectionPhase) after(s connectionStep) connectionPhase {
	switch {
	case s == dialDone:
		return connected
	case p == disconnected && s == dialStarted:
		return dialing
	case p == dialing && s == dialFailed, p == connected && s == connectionLost:
		return disconnected
	}
	return p
}
