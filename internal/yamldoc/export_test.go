// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package yamldoc

// MaxMemory is the largest result of [Memory] for which a document is parsed.
const MaxMemory = maxMemory

// Memory returns an estimate of the memory, in bytes, that parsing a document takes.
func Memory(text []byte) int {
	if hasAliases(text) {
		return maxMemory
	}
	return memory(text)
}
