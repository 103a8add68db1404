// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiserver has only tests: kubectl, RBAC, the garbage collector and other clients of a
// real cluster use the works that examples/work-apiserver serves as an aggregated API.
package apiserver
