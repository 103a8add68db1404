// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import "k8s.io/apimachinery/pkg/util/validation/field"

// The functions and data that the tests compare with the CRD.
var (
	Definition      = definition
	CELRules        = celRules
	IsReason        = isReason
	IsConditionType = isConditionType
	IsSubdomain     = isSubdomain
)

// Constraints returns the errors of the API server's validator. If whole is true, the validator
// receives the value as a whole, otherwise the elements of long lists separately.
func Constraints(member string, value any, whole bool) field.ErrorList {
	root := Schema()
	all := map[string]any{member: value}
	if whole {
		return validated(nil, "", all, root)
	}
	return constraints(nil, "", all, root)
}
