// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e holds the end-to-end tests of the SDK: on a real kube-apiserver,
// kube-controller-manager and etcd (package kube), and on a real Mosquitto
// (github.com/spokewire/sdk-go/internal/testing/mosquitto). It is a module of its own, so
// that what the tests need is no requirement of the SDK.
//
// A test has the cluster that all share (kube.Shared), and in it a namespace of its own, unless it stops a server or
// needs one with other flags. Those that measure time or count connections run one after the other; then all others run
// at the same time, most of which wait: -parallel 8 makes that shorter.
//
// `make test` runs them. They skip what is not installed, and fail instead of
// skipping when the environment variable CI is "true".
package e2e
