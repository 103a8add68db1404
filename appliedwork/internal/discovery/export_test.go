// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package discovery

// Versions returns the number of cached answers about versions, for tests.
func (k *Cache) Versions() int { return len(k.versions) }
