// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package applyconfiguration returns the configurations for server-side apply by kind. Their types
// are in the subpackage appliedwork/v1alpha1.
package applyconfiguration
