// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAllowWebhook checks that each kind of target is added to its own list, and that no webhook is
// allowed without the flag.
func TestAllowWebhook(t *testing.T) {
	type targets struct {
		Hosts, Services []string
		Networks        []string
	}
	for _, test := range []struct {
		args []string
		want targets
	}{
		{nil, targets{Services: []string{}}},
		{[]string{"--allow-webhook", "localhost:9443", "--allow-webhook", "prod/*", "--allow-webhook", "127.0.0.0/8"},
			targets{[]string{"localhost:9443"}, []string{"prod/*"}, []string{"127.0.0.0/8"}}},
	} {
		o, err := parse(append([]string{"--broker", "mqtt://b"}, test.args...))
		if err != nil {
			t.Fatal(err)
		}
		got := targets{Hosts: o.Hosts, Services: o.Services}
		for _, n := range o.Networks {
			got.Networks = append(got.Networks, netip.Prefix.String(n))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.args, diff)
		}
	}
}
