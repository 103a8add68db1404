// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

// Adoption says what Apply does with an object that exists and is not ours.
type Adoption string

const (
	// AdoptNever refuses it with an [*AdoptionError]. It is the default.
	AdoptNever Adoption = "Never"
	// AdoptIfUnowned adopts what has no owner reference, and refuses the rest.
	AdoptIfUnowned Adoption = "IfUnowned"
	// AdoptAlways adopts it beside its other owners, who keep their references.
	AdoptAlways Adoption = "Always"
)
