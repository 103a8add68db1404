// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spoke

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Origin identifies the hub of works. It is stored in AppliedWorks, because their names identify a
// hub only by its --hub name. Two agents that use the same --hub for two hubs would otherwise adopt
// and remove each other's objects.
type Origin struct {
	// Address is the address of the API server or the broker.
	Address string `json:"address"`
	// Sources are the served sources of a broker; none means all.
	Sources []string `json:"sources,omitempty"`
}

// String returns the origin as in messages.
func (o Origin) String() string {
	if len(o.Sources) == 0 {
		return o.Address
	}
	return fmt.Sprintf("%s, source %s", o.Address, strings.Join(o.Sources, " and "))
}

// overlaps reports whether works of one origin may be works of the other. An agent that serves
// another source in addition remains the same.
func (o Origin) overlaps(other Origin) bool {
	return o.Address == other.Address && (len(o.Sources) == 0 || len(other.Sources) == 0 ||
		slices.ContainsFunc(o.Sources, func(source string) bool { return slices.Contains(other.Sources, source) }))
}

// ForeignError reports that an AppliedWork belongs to another hub. The agent does not change it or
// its objects.
type ForeignError struct {
	Record     string
	Hub, Other Origin // of this agent, and of the AppliedWork
}

// Error returns the owner of the AppliedWork and the remedy.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("AppliedWork %s belongs to the hub at %s, and this agent serves %s: start each of the two "+
		"agents with its own --hub; if the hub has moved, start this agent with --hub-was %s",
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
