// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build counted

package peers

// This import is counted and never built. The tag makes go.mod require the module.
import _ "github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/webhook"
