// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

// These functions write statuses: the writer, and the reflection that it must agree with.
var (
	MarshalStatus   = marshalStatus
	MarshalLater    = marshalLater
	CanonicalStatus = canonicalStatus
	WritesAll       = writesAll
)

// These functions read statuses: the parser, and the reflection that it must agree with.
var (
	ParseStatus         = parseStatus
	ReflectStatus       = reflectStatus
	ParseBundleStatus   = parseBundleStatus
	ReflectBundleStatus = reflectBundleStatus
	Words               = words[:]
)
