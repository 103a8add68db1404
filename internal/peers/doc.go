// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package peers has tests that measure other projects in the way in which this SDK is measured, for
// the comparison in README.md: their figures next to ours, from the same machine. It also compares
// the answers of Karmada's interpreter of built-in kinds with those of package native, and those of
// Karmada's customizations of third-party kinds with those of package lua. It is a module of its
// own with the SDK's versions of Kubernetes' modules, so what differs is the projects' own. The OCM
// SDK is measured in internal/e2e/interop, where it is at home.
//
//	make peers                # little, in seconds
//	make peers WATCHES=1000   # as in README.md, in four minutes: most of it is this other watcher with client-go's default limits
package peers
