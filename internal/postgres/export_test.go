// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package postgres

// SplitWrites is splitWrites.
var SplitWrites = splitWrites
