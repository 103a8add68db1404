// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memory

const (
	Window      = window
	QueueLength = queueLength
)
