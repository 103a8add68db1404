// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"context"
	"crypto/x509"
	"errors"
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

// Options configures a [Caller]. The zero value is useful: configurations are then set with SetConfigurations.
type Options struct {
	// Client, if it is set, is where configurations are read and watched, of both protocols, while Start runs. A CRD that
	// the API server does not have counts as no configurations, until it is there. Needs the verbs list and watch.
	Client dynamic.Interface
	// Mapper finds the resource of a kind, for rules of the Explore protocol, which name resources. Required where there
	// are such rules, other than for all resources.
	Mapper meta.RESTMapper

	// AllowedHosts are the hosts that a webhook's URL may name: "hook.example.com", "hook.example.com:8443", "*.example.com" for all
	// names below, or "*". Defaults to none, because the author of a configuration would choose where objects are sent.
	// Services are called without it.
	AllowedHosts []string
	// AllowedServices are the services that a webhook may name: "namespace/name" or "namespace/*". Nil allows all, an empty list
	// allows none.
	AllowedServices []string
	// AllowedAddresses are addresses to which connections are made although they are loopback, link-local, multicast or of a cloud's
	// metadata service. Addresses are checked when a connection is made, after the name was resolved. An entry of AllowedHosts
	// that is such an address, or "localhost", allows it too. Addresses of proxies and from ResolveService are not checked, nor is
	// a name that a proxy resolves.
	AllowedAddresses []netip.Prefix

	// Credentials returns the credentials for a server, host:port in lower case, such as
	// "hook.prod.svc:443". It is called for each connection and each call. Defaults to anonymous
	// calls: a token that goes to each server in a configuration is no secret.
	Credentials func(server string) Credentials
	// RootCAs are trusted where a configuration has no CA bundle. Defaults to those of the system.
	RootCAs *x509.CertPool
	// ResolveService returns the address, host:port, at which a service is reached. Defaults to its DNS name in the
	// cluster. The name in its certificate is name.namespace.svc in any case.
	ResolveService func(ctx context.Context, namespace, name string, port int32) (string, error)
	// Dial, if it is set, makes the connections. It must check addresses itself: AllowedAddresses has no effect then.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Proxy finds the proxy for webhooks with a URL. Defaults to what the environment says, as for net/http. Services are
	// called directly.
	Proxy func(*http.Request) (*url.URL, error)

	// MaxBytes is the greatest size of an answer. Defaults to 8 MiB.
	MaxBytes int64
	// Retries is how often a call that never reached the server, or that the server answered with 429, or with 503 and
	// Retry-After, is retried. Other calls may have been answered, and are not retried. Defaults to 2; -1 means never.
	Retries int
	// RetryDelay is the time before the first retry; it doubles with each. Retry-After can make it longer. There is no retry
	// if the webhook's timeout ends first. Defaults to 100 ms.
	RetryDelay time.Duration

	// MetricsRegisterer takes the metrics. Nil means none.
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
	if o.MaxBytes == 0 {
		o.MaxBytes = interpreter.MaxBytes
	}
	switch {
	case o.Retries == 0:
		o.Retries = 2
	case o.Retries < 0:
		o.Retries = 0
	}
	if o.RetryDelay == 0 {
		o.RetryDelay = 100 * time.Millisecond
	}
	if o.Proxy == nil {
		o.Proxy = http.ProxyFromEnvironment
	}
	return o
}

func (o *Options) validate() error {
	switch {
	case o.MaxBytes < 0:
		return fmt.Errorf("Options.MaxBytes is %d: it must not be negative", o.MaxBytes)
	case o.Retries > 10:
		return fmt.Errorf("Options.Retries is %d: 10 are enough for everybody", o.Retries)
	case o.RetryDelay < 0:
		return errors.New("Options.RetryDelay must not be negative")
	}
	return checkAllowed(o.AllowedHosts, o.AllowedServices)
}

// Configurations are the configurations of both protocols.
type Configurations struct {
	Exploring    []v1alpha1.ResourceExploringWebhookConfiguration
	Interpreting []v1alpha1.ResourceInterpreterWebhookConfiguration
}
