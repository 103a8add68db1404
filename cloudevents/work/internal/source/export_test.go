// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/internal/workdata"
)

// StoredWork is the record of a work in the Store.
type StoredWork = storedSourceWork

// DecodeWork decodes a record as load does.
func DecodeWork(record []byte) (*StoredWork, error) {
	var stored StoredWork
	return &stored, workdata.Decode(record, &stored, sourceWorkMembers)
}

// WorkMembers returns the names of the members that are read without encoding/json.
func WorkMembers() []string {
	var names []string
	for _, m := range sourceWorkMembers {
		names = append(names, m.Name)
	}
	return names
}

// Identities loads records into one work, and returns its identity after each.
func Identities(id string, records ...*StoredWork) []protocol.Identity {
	w := &sourceWork{id: id}
	var identities []protocol.Identity
	for _, r := range records {
		w.loadLocked(r)
		identities = append(identities, w.identityLocked())
	}
	return identities
}
