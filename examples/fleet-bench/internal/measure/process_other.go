// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package measure

import "time"

// CPU is not known on this system.
func CPU() time.Duration { return 0 }

// AllowFiles has nothing to raise on this system.
func AllowFiles(int) error { return nil }
