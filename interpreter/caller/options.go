// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// Options configures a [Caller]. With the zero value, configurations are set with
// SetConfigurations.
type Options struct {
	// Client reads and watches the configurations of both protocols while Start runs, if it is set.
	// A missing CRD counts as no configurations until it exists. Requires the verbs list and watch.
	Client dynamic.Interface
	// Mapper finds the resource of a kind, for rules of the Explore protocol, which name resources.
	// Required for such rules, except those for all resources.
	Mapper meta.RESTMapper

	// AllowedHosts are the hosts that the URL of a webhook may have: "hook.example.com",
	// "hook.example.com:8443", "*.example.com" for all subdomains, or "*". Empty by default. Services
	// do not need an entry.
	AllowedHosts []string
	// AllowedServices are the services that a webhook may have: "namespace/name" or "namespace/*".
	// Nil allows all, an empty list allows none.
	AllowedServices []string
	// AllowedAddresses are addresses to which connections are allowed although they are loopback,
	// link-local, multicast or of a cloud's metadata service. An entry of AllowedHosts for exactly
	// such an address, or "localhost", allows it too. Addresses of proxies, addresses from
	// ResolveService and names that a proxy resolves are not checked.
	AllowedAddresses []netip.Prefix

	// Credentials returns the credentials for a server, host:port in lower case, such as
	// "hook.prod.svc:443". It is called for each connection and each call. Defaults to anonymous calls.
	Credentials func(server string) Credentials
	// RootCAs are the CAs for configurations without a CA bundle. Defaults to those of the system.
	RootCAs *x509.CertPool
	// ResolveService returns the address, host:port, of a service. Defaults to its DNS name in the
	// cluster. The certificate must always be valid for name.namespace.svc.
	ResolveService func(ctx context.Context, namespace, name string, port int32) (string, error)
	// Dial, if it is set, makes the connections. It must check addresses itself: AllowedAddresses
	// has no effect then.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Proxy returns the proxy for webhooks with a URL. Defaults to the environment variables, as in
	// net/http. Services are called without a proxy.
	Proxy func(*http.Request) (*url.URL, error)

	// MaxBytes is the maximum size of an answer. Defaults to 8 MiB.
	MaxBytes int64
	// Retries is the maximum number of retries of a call. A call is retried if it never reached the
	// server, or the answer was 429, or 503 with Retry-After. At most 10. Defaults to 2; -1 means
	// never.
	Retries int
	// RetryDelay is the time before the first retry. It doubles with each retry, and Retry-After can
	// make it longer. There is no retry if the timeout of the webhook would end first. Defaults to
	// 100 ms.
	RetryDelay time.Duration

	// MetricsRegisterer registers the metrics. Nil means no metrics.
	MetricsRegisterer prometheus.Registerer
}

// Credentials are the credentials for a server. Files are read for each connection or call, so they
// may be replaced.
type Credentials struct {
	// BearerToken, or the content of BearerTokenFile, is sent with each call.
	BearerToken, BearerTokenFile string
	// CertFile and KeyFile are the client certificate.
	CertFile, KeyFile string
}

// String hides the token.
func (Credentials) String() string { return "credentials" }

// GoString hides the token.
func (Credentials) GoString() string { return "credentials" }

func (o Options) withDefaults() Options {
	o.MaxBytes = cmp.Or(o.MaxBytes, interpreter.MaxBytes)
	o.Retries = max(0, cmp.Or(o.Retries, 2))
	o.RetryDelay = cmp.Or(o.RetryDelay, 100*time.Millisecond)
	if o.Proxy == nil {
		o.Proxy = http.ProxyFromEnvironment
	}
	return o
}

func (o *Options) validate() error {
	switch {
	case o.MaxBytes < 0:
		return fmt.Errorf("invalid Options.MaxBytes: %d: must not be negative", o.MaxBytes)
	case o.Retries > 10:
		return fmt.Errorf("invalid Options.Retries: %d: must be at most 10", o.Retries)
	case o.RetryDelay < 0:
		return fmt.Errorf("invalid Options.RetryDelay: %v: must not be negative", o.RetryDelay)
	}
	return checkAllowed(o.AllowedHosts, o.AllowedServices)
}

// Configurations are the configurations of both protocols.
type Configurations struct {
	Exploring    []v1alpha1.ResourceExploringWebhookConfiguration
	Interpreting []v1alpha1.ResourceInterpreterWebhookConfiguration
}
