// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package maestro builds Maestro's program, which the end-to-end tests run as a process. Nothing
// imports it: this file only keeps the requirements of the command in go.mod, so that
// `go mod tidy` does not drop them.
package maestro

import _ "github.com/openshift-online/maestro/cmd/maestro"
