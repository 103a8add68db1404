// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package consumer tests the SDK as a user receives it with go get. A controller that does not use
// the SDK is a separate module in testdata. It gets the SDK, one package at a time, from a GOPROXY
// that is built from this tree.
//
// testdata/controller is that module. testdata/newer and testdata/older are other requirements for
// it. testdata/uses has a program for each public package, or a test if the package is a test kit.
// testdata/budgets.txt has the cost limit of each package. The command
//
//	go test -C internal/e2e ./consumer -run TestConsumer -update
//
// writes the current costs. When all modules are in the module cache, no request reaches the
// network.
package consumer
