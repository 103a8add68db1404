// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package work_test

// raceDetector is whether the tests run under it; then there are fewer works.
const (
	raceDetector   = true
	unchangedWorks = 2_000
)
