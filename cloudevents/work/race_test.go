// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package work_test

// raceDetector reports whether the tests run under the race detector. Such tests use fewer works.
const (
	raceDetector   = true
	unchangedWorks = 2_000
)
