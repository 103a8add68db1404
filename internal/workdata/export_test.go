// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workdata

import workv1 "open-cluster-management.io/api/work/v1"

// These functions write and read statuses in two ways, which must agree.
var (
	MarshalLater  = marshalLater
	WritesAll     = known
	Reflect       = reflectStatus
	ReflectBundle = reflectBundleStatus
	Words         = words[:]
)

// Parse reads data of the enhancement or of a bundle without reflection.
func Parse(data []byte, l Limits, ofBundle bool) (*workv1.ManifestWorkStatus, bool) {
	if ofBundle {
		return parseStatus(data, l, bundle)
	}
	return parseStatus(data, l, status)
}

// ParseRecord decodes a record without encoding/json, or returns false.
func ParseRecord[T any](record []byte, to *T, of Object[T]) bool { return parseRecord(record, to, of) }
