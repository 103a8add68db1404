// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package appliedwork records what a work has put on a managed cluster, and takes it away again.
package appliedwork
