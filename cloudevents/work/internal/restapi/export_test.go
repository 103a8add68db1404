// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi

// WithWarnings is the filter of the handler.
var WithWarnings = withWarnings
