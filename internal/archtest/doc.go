// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package archtest holds no code, only tests of how the SDK is put together: who
// may import whom, how much each public package brings into a user's build, and
// where things are in the tree. What they enforce is written as tables in
// rules_test.go; change a table on purpose, in the commit that needs it.
package archtest
