// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubecluster

// Policies is tested without a cluster.
var Policies = policies
