// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

// Adoption decides whether Apply adopts an existing object that the AppliedWork does not own.
type Adoption string

const (
	// AdoptNever refuses the object with an [*AdoptionError]. It is the default.
	AdoptNever Adoption = "Never"
	// AdoptIfUnowned adopts an object without owner references, and refuses all others.
	AdoptIfUnowned Adoption = "IfUnowned"
	// AdoptAlways adopts the object. Other owners keep their owner references.
	AdoptAlways Adoption = "Always"
)
