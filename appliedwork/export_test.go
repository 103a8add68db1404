// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

// Covers is covers, for tests.
func Covers(fields map[string]any, value, live any) bool { return covers(fields, value, live) }
