// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrNotAllowed is the cause of a [*CallError] for a webhook that Options.AllowedHosts,
// AllowedServices or AllowedAddresses do not allow. Nothing was sent.
var ErrNotAllowed = errors.New("the webhook's target is not allowed")

func (o *Options) allowsService(namespace, name string) bool {
	return o.AllowedServices == nil ||
		slices.Contains(o.AllowedServices, namespace+"/"+name) || slices.Contains(o.AllowedServices, namespace+"/*")
}

// allowsHost also reports whether an entry is exactly the host.
func (o *Options) allowsHost(host, port string) (allowed, exact bool) {
	for _, entry := range o.AllowedHosts {
		wantHost, wantPort := splitHost(entry)
		if wantPort != "" && wantPort != port {
			continue
		}
		below, wild := strings.CutPrefix(wantHost, "*")
		switch {
		case wantHost == host:
			return true, true
		case wild && strings.HasSuffix(host, below) && len(host) > len(below):
			allowed = true
		}
	}
	return allowed, false
}

// splitHost splits an entry of AllowedHosts. The port may be empty.
func splitHost(entry string) (host, port string) {
	host, port, err := net.SplitHostPort(entry)
	if err != nil {
		host, port = strings.Trim(entry, "[]"), ""
	}
	return strings.ToLower(host), port
}

func checkAllowed(hosts, services []string) error {
	for _, entry := range hosts {
		host, port := splitHost(entry)
		_, err := netip.ParseAddr(host)
		if host == "" || strings.ContainsAny(host+port, "/@") || err != nil && strings.Contains(host, ":") ||
			strings.Contains(host[1:], "*") || len(host) > 1 && host[0] == '*' && host[1] != '.' {
			return fmt.Errorf(
				"invalid Options.AllowedHosts: %q: must be host or host:port, where host may be * or *.domain", entry)
		}
	}
	for _, entry := range services {
		if namespace, name, ok := strings.Cut(entry, "/"); !ok || namespace == "" || name == "" {
			return fmt.Errorf("invalid Options.AllowedServices: %q: must be namespace/name or namespace/*", entry)
		}
	}
	return nil
}

// refused has cloud metadata services that are not link-local, and blocks that can lead to this machine
// or to any IPv4 address.
var refused = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),          // this network
	netip.MustParsePrefix("240.0.0.0/4"),        // reserved
	netip.MustParsePrefix("::/96"),              // IPv4-compatible
	netip.MustParsePrefix("::ffff:0:0:0/96"),    // IPv4-translated
	netip.MustParsePrefix("64:ff9b:1::/48"),     // NAT64, for local use
	netip.MustParsePrefix("2001::/32"),          // Teredo
	netip.MustParsePrefix("2002::/16"),          // 6to4
	netip.MustParsePrefix("fec0::/10"),          // site-local
	netip.MustParsePrefix("fd00:ec2::254/128"),  // AWS
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle
}

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// checkAddress returns an error for an address of this machine, of its link or of a metadata
// service, unless it is allowed.
func checkAddress(addr netip.Addr, allowed []netip.Prefix) error {
	addr = addr.Unmap().WithZone("")
	contains := func(p netip.Prefix) bool { return p.Contains(addr) }
	if slices.ContainsFunc(allowed, contains) {
		return nil
	}
	if nat64.Contains(addr) {
		b := addr.As16()
		return checkAddress(netip.AddrFrom4([4]byte(b[12:])), allowed)
	}
	if addr.IsGlobalUnicast() && !slices.ContainsFunc(refused, contains) {
		return nil
	}
	return fmt.Errorf("%w: address %s is loopback, link-local, multicast or of a metadata service: "+
		"see Options.AllowedAddresses", ErrNotAllowed, addr)
}

// exactAddresses returns the addresses that an entry of AllowedHosts for exactly a host allows.
func exactAddresses(host string) []netip.Prefix {
	if host == "localhost" {
		return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Prefix{netip.PrefixFrom(addr.WithZone(""), addr.BitLen())}
	}
	return nil
}

type (
	dialFunc    = func(ctx context.Context, network, address string) (net.Conn, error)
	controlFunc = func(network, address string, c syscall.RawConn) error
)

// dialer returns the function that connects. control may be nil, to connect without a check to an
// address that the program chose: of a proxy, or from Options.ResolveService.
func dialer(o *Options, control controlFunc) dialFunc {
	if o.Dial != nil {
		return o.Dial
	}
	return (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout * 3, Control: control}).DialContext
}

const dialTimeout = 10 * time.Second

// checked returns a function that checks each address after name resolution. A name that changes its
// address between two lookups does not bypass it.
func checked(allowed []netip.Prefix) controlFunc {
	return func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: address %s", ErrNotAllowed, address)
		}
		return checkAddress(to.Addr(), allowed)
	}
}

// useProxy makes a transport use Options.Proxy. Addresses of proxies are not checked.
func useProxy(o *Options, transport *http.Transport) {
	var proxies sync.Map // by address
	transport.Proxy = func(r *http.Request) (*url.URL, error) {
		proxy, err := o.Proxy(r)
		if err == nil && proxy != nil {
			port := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
			proxies.Store(net.JoinHostPort(proxy.Hostname(), cmp.Or(proxy.Port(), port)), true)
		}
		return proxy, err
	}
	checked, free := transport.DialContext, dialer(o, nil)
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if _, ok := proxies.Load(address); ok {
			return free(ctx, network, address)
		}
		return checked(ctx, network, address)
	}
}
