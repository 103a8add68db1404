// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostile attacks the example programs with hostile input while they serve other clients.
// A program must not end, must use at most 400 MiB of resident memory, and must serve others within
// a second. The tests run alone, without the race detector.
package hostile
