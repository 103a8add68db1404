// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package internal has the schema of AppliedWork for reading managed fields.
package internal
