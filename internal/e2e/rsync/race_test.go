// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package rsync_test

// raceEnabled is whether the race detector is on. It makes slow code about ten times slower.
const raceEnabled = true
