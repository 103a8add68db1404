// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package archtest has only tests of the architecture of the SDK: allowed imports, the number of
// packages that each public package adds to a user's build, and the places of files in the tree.
// The rules are tables in rules_test.go. Change a table only on purpose, in the commit that needs
// it.
package archtest
