// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

// wire returns nothing: only Linux is supported.
func wire() wireBytes { return wireBytes{} }

// resident returns nothing, like wire.
func resident() int { return 0 }

// loadAverage returns no figure, like wire.
func loadAverage() string { return "unknown" }
