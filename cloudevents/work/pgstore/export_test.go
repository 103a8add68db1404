// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore

// MaxOwnBytes is for tests.
const MaxOwnBytes = maxOwnBytes
