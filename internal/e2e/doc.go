// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e holds the end-to-end tests of the SDK. They run on a real kube-apiserver,
// kube-controller-manager and etcd (package kube), and on a real Mosquitto
// (github.com/spokewire/sdk-go/internal/testing/mosquitto). It is a separate module, so
// requirements of the tests are not requirements of the SDK.
//
// A test uses the cluster that all tests share (kube.Shared), with its own namespace. It has its
// own cluster only if it stops a server or needs other flags. Tests that measure time or count
// connections run one after the other. Then all other tests run in parallel. Most of them wait, so
// -parallel 8 makes the run shorter.
//
// `make test` runs them. They skip if a program is not installed. If the environment variable CI is
// "true", they fail instead.
package e2e
