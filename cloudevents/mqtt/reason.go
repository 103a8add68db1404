// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"fmt"

	"github.com/eclipse/paho.golang/packets"
)

// ReasonError is a refusal by the broker. It is part of the error that Connect returns (CONNACK,
// SUBACK), that done receives (PUBACK) and that Err returns (DISCONNECT); use [errors.As] to find
// it.
type ReasonError struct {
	// Packet is the kind of packet that contained it: CONNACK, SUBACK, PUBACK or DISCONNECT.
	Packet string
	// Code is the reason code of MQTT v5, section 2.4.
	Code byte
	// Reason is the reason string of the broker, often empty.
	Reason string
}

// Error returns the name of the code, and advice if available.
func (e *ReasonError) Error() string {
	s := fmt.Sprintf("%s (%s 0x%02X)", reasonName(e.Code), e.Packet, e.Code)
	if e.Reason != "" {
		s += fmt.Sprintf(", in the broker's words: %.200q", e.Reason)
	}
	if advice := e.advice(); advice != "" {
		s += ": " + advice
	}
	return s
}

// advice returns a solution for the codes that occur in practice.
func (e *ReasonError) advice() string {
	switch e.Code {
	case packets.ConnackUnsupportedProtocolVersion:
		return "the broker must speak MQTT v5"
	case packets.ConnackInvalidClientID:
		return "check ClientID"
	case packets.ConnackBadUsernameOrPassword:
		return "check Username and Password or PasswordFile"
	case packets.ConnackNotAuthorized:
		if e.Packet == "CONNACK" {
			return "check Username, Password and certificate"
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

// temporary reports whether a refused message may be accepted soon. The code not authorized is not
// temporary: access rules change seldom, and the next connection tries again.
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

// reasonName returns the name of a code in the specification.
func reasonName(code byte) string {
	switch code {
	case 0x00:
		return "normal disconnection"
	case 0x80:
		return "unspecified error"
	case 0x81:
		return "malformed packet"
	case 0x82:
		return "protocol error"
	case 0x83:
		return "implementation specific error"
	case 0x84:
		return "unsupported protocol version"
	case 0x85:
		return "client identifier not valid"
	case 0x86:
		return "bad user name or password"
	case 0x87:
		return "not authorized"
	case 0x88:
		return "server unavailable"
	case 0x89:
		return "server busy"
	case 0x8A:
		return "banned"
	case 0x8B:
		return "server shutting down"
	case 0x8C:
		return "bad authentication method"
	case 0x8D:
		return "keep alive timeout"
	case 0x8E:
		return "session taken over"
	case 0x8F:
		return "topic filter invalid"
	case 0x90:
		return "topic name invalid"
	case 0x91:
		return "packet identifier in use"
	case 0x93:
		return "receive maximum exceeded"
	case 0x95:
		return "packet too large"
	}
	return rareReasonName(code)
}

// rareReasonName is the second half of reasonName.
func rareReasonName(code byte) string {
	switch code {
	case 0x94:
		return "topic alias invalid"
	case 0x96:
		return "message rate too high"
	case 0x97:
		return "quota exceeded"
	case 0x98:
		return "administrative action"
	case 0x99:
		return "payload format invalid"
	case 0x9A:
		return "retain not supported"
	case 0x9B:
		return "QoS not supported"
	case 0x9C:
		return "use another server"
	case 0x9D:
		return "server moved"
	case 0x9E:
		return "shared subscriptions not supported"
	case 0x9F:
		return "connection rate exceeded"
	case 0xA0:
		return "maximum connect time"
	case 0xA1:
		return "subscription identifiers not supported"
	case 0xA2:
		return "wildcard subscriptions not supported"
	}
	return "unknown reason"
}
