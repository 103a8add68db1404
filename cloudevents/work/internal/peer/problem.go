// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/cut"
)

// Clip shortens a message to the length that the schema allows in a condition.
func Clip(message string) string { return cut.Within(message, 32<<10) }

// EmptyStatus reports whether a status has no content: no agent has reported, or there was nothing
// to report.
func EmptyStatus(s *workv1.ManifestWorkStatus) bool {
	return len(s.Conditions) == 0 && len(s.ResourceStatus.Manifests) == 0
}
