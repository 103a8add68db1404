// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

// All has all scripts. Scripts with a name that begins with "spoke" test the clientset of an agent.
var All = []Script{
	{Name: "create", Run: create},
	{Name: "paths", Run: paths},
	{Name: "shapes", Run: shapes},
	{Name: "get", Run: throughHub(get)},
	{Name: "update", Run: update},
	{Name: "patch", Run: patch},
	{Name: "bad patches", Run: badPatches},
	{Name: "null patches", Run: nullPatches},
	{Name: "wrong bodies", Run: wrongBodies},
	{Name: "delete", Run: remove},
	{Name: "deletion", Run: deletion},
	{Name: "collection", Run: collection},
	{Name: "list", Run: throughHub(list)},
	{Name: "history", Run: throughHub(history), Ages: true},
	{Name: "watch", Run: throughHub(watches)},
	{Name: "watch options", Run: throughHub(watchOptions)},
	{Name: "status from the hub", Run: hubStatus},
	{Name: "spoke get", Run: throughSpoke(get)},
	{Name: "spoke list", Run: throughSpoke(list)},
	{Name: "spoke history", Run: throughSpoke(history), Ages: true},
	{Name: "spoke watch", Run: throughSpoke(watches)},
	{Name: "spoke watch options", Run: throughSpoke(watchOptions)},
	{Name: "spoke status", Run: spokeStatus},
	{Name: "spoke status patches", Run: spokeStatusPatches},
	{Name: "spoke status bodies", Run: statusBodies},
	{Name: "spoke metadata", Run: spokeMetadata},
	{Name: "travel", Run: travel},
	{Name: "spoke metadata patches", Run: spokeMetadataPatches},
	{Name: "spoke writes", Run: spokeWrites},
	{Name: "spoke deletion", Run: spokeDeletion, Cleans: true},
}
