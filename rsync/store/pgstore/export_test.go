// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore

import "context"

// Compact deletes the old events now.
func (s *Store) Compact(ctx context.Context) error { return s.compactNow(ctx) }
