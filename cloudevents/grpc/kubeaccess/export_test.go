// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubeaccess

import (
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/answers"
)

// SetMaxBytes changes the limit of the decisions. Call it first.
func (r *Reviews) SetMaxBytes(most int) {
	r.rights = answers.New(clock.RealClock{}, r.options.CacheTTL, most, sizeOfRight)
}
