// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package git_test

// raceEnabled reports whether the race detector is on.
const raceEnabled = true
