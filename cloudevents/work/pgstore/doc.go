// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package pgstore implements [work.SharedStore] in PostgreSQL.
package pgstore
