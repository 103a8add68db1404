// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package restconfig_test

// raceDetector reports whether the tests run under the race detector.
const raceDetector = false
