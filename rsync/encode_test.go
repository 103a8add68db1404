// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"encoding/json"
	"testing"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// TestEncodeResources: what is stored is what package json makes of it.
func TestEncodeResources(t *testing.T) {
	object := appcontext.Object{Kind: "ConfigMap", Name: "a", Namespace: `"<x>`}
	for _, resources := range [][]appcontext.Resource{
		{},
		{{Object: object, Manifest: []byte{}}},
		{{Object: object, Manifest: []byte("a")}, {Hook: "pre-install", Manifest: []byte(`{"b":"}"}`)}},
	} {
		want, err := json.Marshal(resources)
		if err != nil {
			t.Fatal(err)
		}
		if got := encodeResources(resources); string(got) != string(want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
