// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package label_test

import (
	"testing"

	"github.com/spokewire/sdk-go/examples/internal/label"
)

func TestAdd(t *testing.T) {
	const added = `"hub.spokewire.io/application":"shop"`
	for manifest, want := range map[string]string{
		`{"metadata":{"name":"a"}}`:                                  `{"metadata":{"labels":{` + added + `},"name":"a"}}`,
		`{"metadata":{"labels":null}}`:                               `{"metadata":{"labels":{` + added + `}}}`,
		`{"metadata":{"labels":{"hub.spokewire.io/application":1}}}`: `{"metadata":{"labels":{` + added + `}}}`,
		`{"metadata":{"labels":{"a":"b"}},"n":1234567890123456789}`: `{"metadata":{"labels":{"a":"b",` + added +
			`}},"n":1234567890123456789}`,
		`[]`: "", `{}`: "", `{"metadata":[]}`: "", `{"metadata":{"labels":[]}}`: "",
	} {
		got, err := label.Add([]byte(manifest), "shop")
		if string(got) != want || (err == nil) == (want == "") {
			t.Errorf("%s: %s, %v; want %s", manifest, got, err, want)
		}
	}
}
