// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package work has the two ends of the wire: a Source that creates ManifestWorks and an Agent that serves them.
package work
