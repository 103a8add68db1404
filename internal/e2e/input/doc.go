// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package input tests the errors that wrong input to the examples and to constructors causes. It
// compares them with their exact texts: each names the flag or the option, the file and the field.
package input
