// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package consumer holds tests of what a user gets with go get: a controller that knows nothing of the SDK, a module of
// its own in testdata, takes it from a GOPROXY that is built from this tree, one package at a time.
//
// testdata/controller is that module; testdata/newer and testdata/older are other requirements for it. testdata/uses has a
// program, or for a test kit a test, for each public package, and testdata/budgets.txt what each one may cost:
//
//	go test -C internal/e2e ./consumer -run TestConsumer -update
//
// writes down what it costs now. Nothing reaches the network once all modules are in the module cache.
package consumer
