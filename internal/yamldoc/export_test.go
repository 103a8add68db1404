// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package yamldoc

// MaxMemory is the limit of what [Memory] returns for a document that is parsed.
const MaxMemory = maxMemory

// Memory returns about how much memory a document takes while it is parsed.
func Memory(text []byte) int {
	if hasAliases(text) {
		return maxMemory
	}
	return memory(text)
}
