// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package rsync_test

// raceEnabled is true if the race detector is enabled. Long tests then take ten times as long.
const raceEnabled = true
