// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
)

// Loopback reports whether a host is localhost or a loopback address. The empty host means all
// addresses.
func Loopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// CheckHost returns an error unless host is the name or the address of a host, without a port.
func CheckHost(host string) error {
	if host == "" || net.ParseIP(host) == nil && strings.ContainsAny(host, ":/*[]@ ") {
		return fmt.Errorf("%q: must be a name such as hub.example.com or an address, without a port", host)
	}
	return nil
}

// Hosts calls next for requests to the names of this machine and to the allowed hosts. It calls
// refuse for others: a page of another site could use a name of its own that resolves to this
// server (DNS rebinding).
func Hosts(allowed []string, next, refuse http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
		// Browsers always send a host.
		same := func(name string) bool { return strings.EqualFold(name, host) }
		if host == "" || Loopback(host) || slices.ContainsFunc(allowed, same) {
			next.ServeHTTP(w, r)
			return
		}
		refuse.ServeHTTP(w, r)
	})
}
