// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package cut shortens texts for messages.
package cut

import "strings"

// Text returns the first most bytes of a longer text and "…", without half a character at the end.
func Text(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Within shortens a text to at most most bytes, including the "…".
func Within(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return Text(text, most-len("…"))
}
