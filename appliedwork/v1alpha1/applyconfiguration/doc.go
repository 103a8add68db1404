// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package applyconfiguration knows which kinds of the group have configurations for server-side apply. They are in package
// appliedwork/v1alpha1 below.
package applyconfiguration
