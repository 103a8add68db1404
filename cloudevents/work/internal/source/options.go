// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import "github.com/spokewire/sdk-go/cloudevents/work/internal/peer"

// Options configures a [Source]. Package work documents and checks them.
type Options struct {
	peer.Options
	SourceID                  string
	SharedGroup               string
	MaxClusterBytes, MaxBytes int64
	MaxStatusBytes            int
}
