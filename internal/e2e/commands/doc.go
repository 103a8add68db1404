// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package commands tests that every command in a document works. Documents are the .md files of the
// tree, the package docs, and the usage texts of the examples. A command is a line of a block that
// is marked sh, an indented line of a package doc, or a quoted part of a line that begins like a
// command.
//
// The file table_test.go defines how each command is run: as it stands, with smaller numbers, as a
// step of a session on real servers, by another test that takes it from its document, or by
// .ci/run. A command that cannot be run is listed with the reason. The test fails if the table
// lacks a command. It also fails if a row is in no document, or if its session does not run it.
// The session of TUTORIAL.md also compiles the program of each step.
package commands
