// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpcwire

import "google.golang.org/protobuf/encoding/protowire"

// Heartbeat is the type of the events by which a server of OCM shows subscribers that it is alive.
const Heartbeat = "io.open-cluster-management.cloudevents.heartbeat"

// AppendHeartbeat appends a heartbeat. It has no source, so it is not a CloudEvent.
func AppendHeartbeat(dst []byte, id string) []byte {
	dst = appendString(dst, fieldID, id)
	dst = appendString(dst, fieldSpecVersion, "1.0")
	return appendString(dst, fieldType, Heartbeat)
}

// IsHeartbeat reports whether an encoded event is a heartbeat.
func IsHeartbeat(b []byte) bool {
	is := false
	err := fields(b, func(field protowire.Number, _ uint64, v []byte) error {
		if field == fieldType {
			is = string(v) == Heartbeat
		}
		return nil
	})
	return is && err == nil
}
