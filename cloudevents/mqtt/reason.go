// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"cmp"
	"fmt"

	"github.com/eclipse/paho.golang/packets"
)

// ReasonError is a refusal by the broker. It is part of the error that Connect returns (CONNACK,
// SUBACK), that the callback of Publish receives (PUBACK) and that Err returns (DISCONNECT). Use
// [errors.As] to find it.
type ReasonError struct {
	// Packet is the broker's packet: CONNACK, SUBACK, PUBACK or DISCONNECT.
	Packet string
	// Code is the reason code of MQTT v5, section 2.4.
	Code byte
	// Reason is the reason string of the broker, often empty.
	Reason string
}

// Error returns the name of the code, the broker's reason if it sent one, and for some codes this
// package's advice.
func (e *ReasonError) Error() string {
	s := fmt.Sprintf("%s (%s 0x%02X)", cmp.Or(reasonNames[e.Code], "unknown reason"), e.Packet, e.Code)
	if e.Reason != "" {
		s += fmt.Sprintf(", in the broker's words: %.200q", e.Reason)
	}
	if advice := e.advice(); advice != "" {
		s += ": " + advice
	}
	return s
}

func (e *ReasonError) advice() string {
	switch e.Code {
	case packets.ConnackUnsupportedProtocolVersion:
		return "the broker must speak MQTT v5"
	case packets.ConnackInvalidClientID:
		return "check ClientID"
	case packets.ConnackBadUsernameOrPassword:
		return "check Username and the password"
	case packets.ConnackNotAuthorized:
		if e.Packet == "CONNACK" {
			return "check Username, the password and the certificate"
		}
		return "check the broker's access rules for this user"
	case packets.DisconnectSessionTakenOver:
		return "another client has connected with the same ClientID"
	}
	return ""
}

// permanent reports whether the same attempt would be refused again.
func (e *ReasonError) permanent() bool {
	switch e.Code {
	case packets.ConnackMalformedPacket, packets.ConnackProtocolError, packets.ConnackUnsupportedProtocolVersion,
		packets.ConnackInvalidClientID, packets.ConnackBadUsernameOrPassword, packets.ConnackNotAuthorized,
		packets.ConnackBanned, packets.ConnackBadAuthenticationMethod, packets.DisconnectTopicFilterInvalid,
		packets.ConnackServerMoved, packets.DisconnectSharedSubscriptionNotSupported,
		packets.DisconnectWildcardSubscriptionsNotSupported:
		return true
	}
	return false
}

// temporary reports whether a refused message may be accepted soon.
func (e *ReasonError) temporary() bool {
	switch e.Code {
	case packets.PubackUnspecifiedError, packets.PubackImplementationSpecificError,
		packets.PubackPacketIdentifierInUse, packets.PubackQuotaExceeded,
		// These are no PUBACK codes (MQTT v5, section 3.4.2.1), but brokers may send them.
		packets.ConnackServerUnavailable, packets.ConnackServerBusy, packets.DisconnectMessageRateTooHigh:
		return true
	}
	return false
}

// reasonNames are the names of the codes in the specification.
var reasonNames = map[byte]string{
	0x00: "normal disconnection",
	0x80: "unspecified error",
	0x81: "malformed packet",
	0x82: "protocol error",
	0x83: "implementation specific error",
	0x84: "unsupported protocol version",
	0x85: "client identifier not valid",
	0x86: "bad user name or password",
	0x87: "not authorized",
	0x88: "server unavailable",
	0x89: "server busy",
	0x8A: "banned",
	0x8B: "server shutting down",
	0x8C: "bad authentication method",
	0x8D: "keep alive timeout",
	0x8E: "session taken over",
	0x8F: "topic filter invalid",
	0x90: "topic name invalid",
	0x91: "packet identifier in use",
	0x93: "receive maximum exceeded",
	0x94: "topic alias invalid",
	0x95: "packet too large",
	0x96: "message rate too high",
	0x97: "quota exceeded",
	0x98: "administrative action",
	0x99: "payload format invalid",
	0x9A: "retain not supported",
	0x9B: "QoS not supported",
	0x9C: "use another server",
	0x9D: "server moved",
	0x9E: "shared subscriptions not supported",
	0x9F: "connection rate exceeded",
	0xA0: "maximum connect time",
	0xA1: "subscription identifiers not supported",
	0xA2: "wildcard subscriptions not supported",
}
