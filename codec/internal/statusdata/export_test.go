// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package statusdata

// These functions write and read statuses in two ways, which must agree.
var (
	MarshalLater  = marshalLater
	WritesAll     = writesAll
	Parse         = parseStatus
	Reflect       = reflectStatus
	ReflectBundle = reflectBundleStatus
	Words         = words[:]
)
