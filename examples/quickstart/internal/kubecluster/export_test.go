// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubecluster

// Policies exports policies for tests without a cluster.
var Policies = policies
