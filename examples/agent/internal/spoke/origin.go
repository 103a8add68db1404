// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spoke

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Origin is where works come from. It is written into AppliedWorks, because their names tell hubs apart only by what people call
// these, and two agents that call two hubs the same would take and remove each other's objects.
type Origin struct {
	// Address is that of the API server or the broker.
	Address string `json:"address"`
	// Sources are those that are served at a broker; none stands for all.
	Sources []string `json:"sources,omitempty"`
}

// String names it as messages do.
func (o Origin) String() string {
	if len(o.Sources) == 0 {
		return o.Address
	}
	return fmt.Sprintf("%s, source %s", o.Address, strings.Join(o.Sources, " and "))
}

// overlaps reports whether works of one may be works of the other: who serves one more source is the same as before.
func (o Origin) overlaps(other Origin) bool {
	return o.Address == other.Address && (len(o.Sources) == 0 || len(other.Sources) == 0 ||
		slices.ContainsFunc(o.Sources, func(source string) bool { return slices.Contains(other.Sources, source) }))
}

// ForeignError says that an AppliedWork is that of another hub. Nothing of it is touched.
type ForeignError struct {
	Record     string
	Hub, Other Origin // ours, and the one that has recorded it
}

// Error says whose it is, and what to do.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("AppliedWork %s is of the hub at %s, and this agent serves %s: give each of the two agents a --hub of its own; or, if it is one hub that has moved, --hub-was %s",
		e.Record, e.Other, e.Hub, e.Other.Address)
}

// mine returns a [*ForeignError] for an AppliedWork that another hub has recorded.
func (c *Cluster) mine(record *v1alpha1.AppliedWork) error {
	hub := settingsIn(record).Hub
	if hub == nil || c.options.Origin.overlaps(*hub) || slices.Contains(c.options.FormerAddresses, hub.Address) {
		return nil
	}
	return &ForeignError{Record: record.Name, Hub: c.options.Origin, Other: *hub}
}
