// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pruneMeta removes what the API server of the control plane has set, and what means something there only.
func pruneMeta(m *metav1.ObjectMeta) {
	m.UID = ""
	m.ResourceVersion = ""
	m.Generation = 0
	m.SelfLink = "" //nolint:staticcheck // deprecated, and in old objects
	m.CreationTimestamp = metav1.Time{}
	m.DeletionTimestamp = nil
	m.DeletionGracePeriodSeconds = nil
	m.ManagedFields = nil
	m.OwnerReferences = nil
	m.Finalizers = nil
}
