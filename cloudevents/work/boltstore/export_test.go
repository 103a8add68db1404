// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package boltstore

import "go.etcd.io/bbolt"

// DB returns the database of a store.
func DB(s *Store) *bbolt.DB { return s.db }
