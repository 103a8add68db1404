// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package peers has tests that measure other projects in the same way as this SDK, for the
// comparison in BENCHMARKS.md. The figures are from the same machine. The package also compares the
// answers of Karmada's interpreter of built-in kinds with package native. It compares Karmada's
// customizations of third-party kinds with package lua. It is a separate module with the SDK's
// versions of Kubernetes modules, so differences are the projects' own. The OCM SDK is measured in
// internal/e2e/interop instead.
//
//	make peers                # a small run, in seconds
//	make peers WATCHES=1000   # as in BENCHMARKS.md, in four minutes: mostly the other watcher with default limits
package peers
