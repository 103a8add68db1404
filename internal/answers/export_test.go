// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package answers

// Stored returns the number of stored answers, and their bytes.
func (c *Cache[Q, A]) Stored() (n, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.order), c.bytes
}
