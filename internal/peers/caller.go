// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build counted

package peers

// Counted, and not built: the tag is only there for go.mod.
import _ "github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/webhook"
