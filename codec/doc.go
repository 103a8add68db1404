// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package codec turns ManifestWorks into CloudEvents and back.
package codec
