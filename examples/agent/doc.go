// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Agent is a work agent for a real cluster. It applies the ManifestWorks that a hub has for the
// cluster, keeps their objects as the works require, reports status, and cleans up. It receives
// works over a broker, or with --transport kube from the API server of a hub:
//
//	go run ./examples/agent --cluster cluster1 --broker mqtt://broker:1883 --source hub --store works.db
//
// It supports each field of a ManifestWork. The objects of a work belong to an AppliedWork on the
// cluster. The process may be killed at any moment: the next process continues. Run one agent at a
// time.
//
// README.md in this folder describes the support for each field, the rights of works, limits,
// crashes, drift, evictions, several hubs, the differences from OCM's agent, metrics and access:
// https://github.com/spokewire/sdk-go/blob/main/examples/agent/README.md
package main
