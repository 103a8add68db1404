// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostile attacks the example programs with hostile input while they serve other clients.
// Each program may allocate 512 MiB of address space in addition to its size at the start. A
// program must not end, and must serve others within a second. The tests run alone, without the
// race detector.
package hostile
