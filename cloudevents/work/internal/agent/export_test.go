// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import "github.com/spokewire/sdk-go/internal/workdata"

// StoredWork is the record of a work in the Store.
type StoredWork = storedAgentWork

// DecodeWork decodes a record as loadRecordLocked does.
func DecodeWork(record []byte) (*StoredWork, error) {
	var stored StoredWork
	return &stored, workdata.Decode(record, &stored, agentWorkMembers)
}

// WorkMembers returns the names of the members that are read without encoding/json.
func WorkMembers() []string {
	var names []string
	for _, m := range agentWorkMembers {
		names = append(names, m.Name)
	}
	return names
}

// FillWork calls fill with all parts of a record.
func FillWork(fill func(any), stored *StoredWork) {
	fill(stored)
	fill(&stored.agentRecord)
}
