// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

// What the tests compare with the CRD.
var (
	Definition      = definition
	CELRules        = celRules
	IsReason        = isReason
	IsConditionType = isConditionType
	IsSubdomain     = isSubdomain
)
