// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer

// Dialect is what a peer supports of the wire format of [codec.ManifestWork].
type Dialect uint8

// Dialects.
const (
	DialectUnknown     Dialect = iota // no event of the peer has arrived
	DialectEnhancement                // only the attributes of the enhancement
	DialectExtended                   // also our extensions
)

// DialectOf returns the dialect of a peer that has sent an event with or without our extensions.
func DialectOf(extensions bool) Dialect {
	if extensions {
		return DialectExtended
	}
	return DialectEnhancement
}

// Saving is the phase of a record that is published only when the Store has it.
type Saving uint8

// Phases of a record.
const (
	Saved         Saving = iota // the Store has the record
	Unsaved                     // the Store has an older record, or does not have it
	SendWhenSaved               // unsaved, and it must be published when it is saved
)

// Change notes that the record has changed.
func (s *Saving) Change() {
	if *s == Saved {
		*s = Unsaved
	}
}

// Send reports whether the record may be published now. Otherwise it must be published when it is
// saved.
func (s *Saving) Send() bool {
	if *s != Saved {
		*s = SendWhenSaved
	}
	return *s == Saved
}

// Save notes that the Store has the record, and reports whether to publish it.
func (s *Saving) Save() (send bool) {
	send = *s == SendWhenSaved
	*s = Saved
	return send
}
