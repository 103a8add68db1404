// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/interpreter/caller"
)

// TestURLNeedsAllowedHost checks that the author of a configuration can neither make the caller
// post objects to any host nor read the answer.
func TestURLNeedsAllowedHost(t *testing.T) {
	const credential = "AKIA-of-the-metadata-server"
	var requests atomic.Int32
	server, ca := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		http.Error(w, credential, http.StatusForbidden)
	}))
	c, err := caller.New(caller.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.SetConfigurations(inter(interpreting("c", at(server.URL, ca)))); err != nil {
		t.Fatal(err)
	}
	_, err = c.Health(t.Context(), object())
	if failed := reason(t, err); failed.Reason != caller.ReasonConfiguration {
		t.Errorf("the reason is %s", failed.Reason)
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("the object was posted %d times", n)
	}
	if strings.Contains(err.Error(), credential) {
		t.Errorf("the error has the answer's body: %v", err)
	}
}

// TestOnlyAllowedTargetsAreCalled checks the targets that a caller connects to.
func TestOnlyAllowedTargetsAreCalled(t *testing.T) {
	service := func(namespace, name string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: name},
		}
	}
	everything := []string{"*"}
	for name, test := range map[string]struct {
		options caller.Options
		config  admissionregistrationv1.WebhookClientConfig
		allowed bool
	}{
		"service": {caller.Options{}, service("prod", "hook"), true},
		"service in the list": {caller.Options{AllowedServices: []string{"prod/hook"}}, service("prod", "hook"),
			true},
		"service of the namespace": {caller.Options{AllowedServices: []string{"prod/*"}}, service("prod", "hook"), true},
		"service not in the list": {caller.Options{AllowedServices: []string{"prod/hook"}},
			service("kube-system", "hook"), false},
		"empty list of services": {caller.Options{AllowedServices: []string{}}, service("prod", "hook"), false},
		"host": {caller.Options{AllowedHosts: []string{"hook.example.com"}},
			at("https://Hook.example.com:8443/x", nil), true},
		"host with port": {caller.Options{AllowedHosts: []string{"hook.example.com:8443"}},
			at("https://hook.example.com:8443/x", nil), true},
		"host with another port": {caller.Options{AllowedHosts: []string{"hook.example.com:8443"}},
			at("https://hook.example.com/x", nil), false},
		"host below": {caller.Options{AllowedHosts: []string{"*.example.com"}},
			at("https://a.b.example.com/x", nil), true},
		"domain itself": {caller.Options{AllowedHosts: []string{"*.example.com"}},
			at("https://example.com/x", nil), false},
		"host that ends alike": {caller.Options{AllowedHosts: []string{"example.com"}},
			at("https://evilexample.com/x", nil), false},
		"user that looks like a host": {caller.Options{AllowedHosts: []string{"example.com"}},
			at("https://example.com@evil.com/x", nil), false},
		"any host":        {caller.Options{AllowedHosts: everything}, at("https://93.184.216.34/", nil), true},
		"private address": {caller.Options{AllowedHosts: everything}, at("https://10.0.0.1/", nil), true},
		"loopback":        {caller.Options{AllowedHosts: everything}, at("https://127.0.0.1/", nil), false},
		"loopback in another form": {caller.Options{AllowedHosts: everything}, at("https://[::ffff:127.0.0.1]/", nil),
			false},
		"loopback of IPv6": {caller.Options{AllowedHosts: everything}, at("https://[::1]/", nil), false},
		"unspecified":      {caller.Options{AllowedHosts: everything}, at("https://0.0.0.0/", nil), false},
		"metadata": {caller.Options{AllowedHosts: everything}, at("https://169.254.169.254/latest", nil),
			false},
		"metadata behind NAT64": {caller.Options{AllowedHosts: everything}, at("https://[64:ff9b::a9fe:a9fe]/", nil),
			false},
		"metadata of IPv6": {caller.Options{AllowedHosts: everything}, at("https://[fd00:ec2::254]/", nil),
			false},
		"metadata of Google, IPv6": {caller.Options{AllowedHosts: everything}, at("https://[fd20:ce::254]/", nil), false},
		"metadata behind local NAT64": {caller.Options{AllowedHosts: everything}, at("https://[64:ff9b:1::a9fe:a9fe]/", nil),
			false},
		"loopback by 6to4": {caller.Options{AllowedHosts: everything}, at("https://[2002:7f00:1::]/", nil),
			false},
		"IPv4-compatible loopback": {caller.Options{AllowedHosts: everything}, at("https://[::7f00:1]/", nil), false},
		"IPv4-translated loopback": {caller.Options{AllowedHosts: everything}, at("https://[::ffff:0:7f00:1]/", nil),
			false},
		"this network": {caller.Options{AllowedHosts: everything}, at("https://0.1.2.3/", nil), false},
		"site-local":   {caller.Options{AllowedHosts: everything}, at("https://[fec0::1]/", nil), false},
		"link-local": {caller.Options{AllowedHosts: everything}, at("https://[fe80::1%25eth0]/", nil),
			false},
		"loopback by name in the list": {caller.Options{AllowedHosts: []string{"127.0.0.1:9443"}},
			at("https://127.0.0.1:9443/", nil), true},
		"loopback by prefix": {caller.Options{AllowedHosts: everything,
			AllowedAddresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, at("https://127.0.0.1/", nil), true},
	} {
		t.Run(name, func(t *testing.T) {
			dialed := false
			test.options.Retries = -1
			test.options.Dial = func(context.Context, string, string) (net.Conn, error) {
				dialed = true
				return nil, errors.New("no route")
			}
			test.options.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil } //nolint:nilnil // no proxy
			c, err := caller.New(test.options)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			configuration := interpreting("c", test.config)
			if err := c.SetConfigurations(inter(configuration)); err != nil {
				if test.allowed {
					t.Fatal(err)
				}
				return // an invalid configuration is rejected earlier
			}
			_, err = c.Health(t.Context(), object())
			if failed := reason(t, err); dialed != test.allowed || errors.Is(err, caller.ErrNotAllowed) == test.allowed ||
				(failed.Reason == caller.ReasonConfiguration) == test.allowed {
				t.Errorf("connected: %t, %v", dialed, err)
			}
		})
	}
	for _, options := range []caller.Options{{AllowedHosts: []string{""}}, {AllowedHosts: []string{"https://a"}},
		{AllowedHosts: []string{"a*"}},
		{AllowedHosts: []string{"*a"}}, {AllowedServices: []string{"hook"}}, {AllowedServices: []string{"/hook"}}} {
		if _, err := caller.New(options); err == nil {
			t.Errorf("%q %q are taken", options.AllowedHosts, options.AllowedServices)
		}
	}
}

// TestAddressIsCheckedWhenDialed checks that a name is rejected after resolution if it resolves to
// this machine.
func TestAddressIsCheckedWhenDialed(t *testing.T) {
	var requests atomic.Int32
	server, ca := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	byName := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	c := configured(t, caller.Options{AllowedHosts: []string{"*"}}, inter(interpreting("c", at(byName, ca))))
	_, err := c.Health(t.Context(), object())
	if failed := reason(t, err); failed.Reason != caller.ReasonConfiguration || !errors.Is(err, caller.ErrNotAllowed) ||
		requests.Load() != 0 {
		t.Errorf("%d requests, %v", requests.Load(), err)
	}
	c = configured(t, caller.Options{AllowedHosts: []string{"localhost"}}, inter(interpreting("c", at(byName, ca))))
	_, err = c.Health(t.Context(), object()) // the certificate is for 127.0.0.1 and example.com
	if failed := reason(t, err); failed.Reason != caller.ReasonUnreachable || errors.Is(err, caller.ErrNotAllowed) {
		t.Errorf("localhost in the list: %v", err)
	}
}

// TestProxyMayBeOnThisMachine checks that the operator's proxy may be on this machine. Other targets on
// this machine stay rejected.
func TestProxyMayBeOnThisMachine(t *testing.T) {
	proxied := make(chan string, 10)
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxied <- r.Host
		w.WriteHeader(http.StatusBadGateway)
	})}
	go func() { _ = server.Serve(proxy) }()
	t.Cleanup(func() { _ = server.Close() })
	through := func(*http.Request) (*url.URL, error) {
		return &url.URL{Scheme: "http", Host: proxy.Addr().String()}, nil
	}
	c := configured(t, caller.Options{AllowedHosts: []string{"hook.example.com"}, Proxy: through, Retries: -1},
		inter(interpreting("c", at("https://hook.example.com/", nil))))
	_, err = c.Health(t.Context(), object())
	_ = reason(t, err)
	select {
	case host := <-proxied:
		if host != "hook.example.com:443" {
			t.Errorf("the proxy was asked for %s", host)
		}
	default:
		t.Errorf("the proxy was not asked: %v", err)
	}
}

// TestSecretNeedsRuleForItsKind: a Secret is sent only to webhooks with a rule for its kind.
func TestSecretNeedsRuleForItsKind(t *testing.T) {
	secret := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	other := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Secret"}
	mapper := mapperOf(secret)
	for name, test := range map[string]struct {
		configurations caller.Configurations
		kind           schema.GroupVersionKind
		want           bool
	}{
		"all kinds":          {inter(interpreting("c", at("https://a.example.com", nil))), secret, false},
		"all kinds, another": {inter(interpreting("c", at("https://a.example.com", nil))), other, true},
		"kind": {inter(interpreting("c", at("https://a.example.com", nil), kindRule("*", "*", "*", "Secret"))),
			secret, true},
		"all resources": {explore(exploring("c", at("https://a.example.com", nil))), secret, false},
		"resource": {explore(exploring("c", at("https://a.example.com", nil),
			resourceRule("*", "", "v1", "secrets", "*"))), secret, true},
	} {
		c := configured(t, caller.Options{Mapper: mapper}, test.configurations)
		if got, err := c.Match("InterpretHealth", test.kind, true); err != nil || (got != "") != test.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// mapperOf returns a mapper for kinds with their default resource names.
func mapperOf(kinds ...schema.GroupVersionKind) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range kinds {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	return mapper
}
