// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package access

// Answers returns the number of cached answers, for tests.
func (r *Reviews) Answers() int { return len(r.answers) }
