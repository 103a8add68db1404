// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spoke_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
)

// TestOwnHub checks that an AppliedWork belongs to the hub in its record. A record without a hub can
// be claimed.
func TestOwnHub(t *testing.T) {
	for _, tt := range []struct {
		name, recorded string
		origin         spoke.Origin
		former         []string
		mine           bool
	}{
		{"nobody's", "", spoke.Origin{Address: "https://a"}, nil, true},
		{"with settings alone", `{"deleteOption":{"propagationPolicy":"Orphan"}}`, spoke.Origin{Address: "https://a"}, nil,
			true},
		{"ours", `{"hub":{"address":"https://a"}}`, spoke.Origin{Address: "https://a"}, nil, true},
		{"another's", `{"hub":{"address":"https://b"}}`, spoke.Origin{Address: "https://a"}, nil, false},
		{"ours of before", `{"hub":{"address":"https://b"}}`, spoke.Origin{Address: "https://a"},
			[]string{"https://c", "https://b"}, true},
		{"one source more", `{"hub":{"address":"mqtt://a","sources":["x"]}}`,
			spoke.Origin{Address: "mqtt://a", Sources: []string{"y", "x"}}, nil, true},
		{"all sources", `{"hub":{"address":"mqtt://a","sources":["x"]}}`, spoke.Origin{Address: "mqtt://a"}, nil, true},
		{"another source", `{"hub":{"address":"mqtt://a","sources":["x"]}}`,
			spoke.Origin{Address: "mqtt://a", Sources: []string{"y"}}, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := spoke.New(spoke.Options{Config: &rest.Config{Host: "https://127.0.0.1:1"}, Hub: "hub", Origin: tt.origin,
				FormerAddresses: tt.former})
			if err != nil {
				t.Fatal(err)
			}
			for _, annotation := range []string{"hub.spokewire.io/work-agent", "spokewire.github.io/work-agent"} {
				record := &v1alpha1.AppliedWork{}
				record.Name, record.Annotations = "r", map[string]string{annotation: tt.recorded}
				err = c.Mine(record)
				var foreign *spoke.ForeignError
				if (err == nil) != tt.mine || err != nil &&
					(!errors.As(err, &foreign) || !strings.Contains(err.Error(), "--hub-was "+foreign.Other.Address)) {
					t.Errorf("%s: %v", annotation, err)
				}
			}
		})
	}
}
