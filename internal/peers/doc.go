// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package peers has tests that measure other projects in the way in which this SDK is measured, for the comparison in README.md:
// their figures next to ours, from the same machine. It is a module of its own and does not know the SDK, because each
// project is measured with the versions of Kubernetes' modules that it asks for. The OCM SDK is measured in internal/e2e/interop, where
// it is at home.
//
//	cd internal/peers
//	KUBEBUILDER_ASSETS="$(../kube/build.sh --dir)" go test -v .
//
// measures little, in seconds. The figures of README.md are of -watches 1000, which takes four minutes: with client-go's default
// limits that is how long this other watcher needs.
package peers
