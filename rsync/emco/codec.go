// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package emco

import (
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/internal/emcokeys"
)

// Decode reads a context from keys in EMCO's etcd. It ignores keys of other contexts, statuses and
// unknown keys. It does not call [appcontext.Validate], because for example an update context may
// depend on apps of the initial context. If the manifest of a resource is not a valid object,
// Decode uses the name and the kind in the resource's key. Decode returns a [*appcontext.Problem]
// with [appcontext.FaultBadLayout] for inconsistent keys.
func Decode(id string, keys map[string]string) (*appcontext.AppContext, error) {
	layout, err := emcokeys.Decode(id, keys)
	if err != nil {
		return nil, err
	}
	return layout.Context, nil
}

// Encode returns EMCO's keys for a context, with their values in JSON. It returns a
// [*appcontext.Problem] with [appcontext.FaultNotRepresentable] if EMCO's keys cannot represent the
// context. EMCO's keys cannot represent two resources of an app on a cluster with the same name and
// kind, a manifest that is not valid UTF-8, or a resource with a wave or delete policies.
func Encode(c *appcontext.AppContext) (map[string]string, error) {
	return emcokeys.Encode(&emcokeys.Layout{Context: c})
}
