// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package uninterpreted has an error that several feature packages export, because they do not
// import each other.
package uninterpreted

import "errors"

// Err is interpreter.ErrNotInterpreted and kube.ErrNotInterpreted.
var Err = errors.New("not interpreted")
