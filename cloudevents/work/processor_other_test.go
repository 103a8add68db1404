// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package work_test

import "time"

// processorTime returns 0: processor time is not measured on this system.
func processorTime() time.Duration { return 0 }
