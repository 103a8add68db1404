// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package work_test

const (
	raceDetector   = false
	unchangedWorks = 10_000
)
