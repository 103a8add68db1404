// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package commands holds the test that every command in a document is one that works. Documents are the .md files of the tree, the
// package docs, and what the examples say about themselves. A command is a line of a block that is marked sh, an
// indented line of a package doc, or a quoted part of a line that begins like one.
//
// How each command is run is in table_test.go: as it is, with smaller numbers, as a step of a session on real servers, by another test
// that takes it from its document, or by .ci/run. What cannot be run is there with the reason. A command that the
// table does not have fails the test, and so does a row that no document has any more, or that its session does not type.
package commands
