// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package work_test

import "time"

// processorTime is not known here.
func processorTime() time.Duration { return 0 }
