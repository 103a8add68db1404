// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

var (
	errNotReady = errors.New("the API server is not ready")
	errStarting = errors.New("the API server is starting and has not loaded its access rules")
)

// client is a connection pool that can be closed, unlike client-go's, with its users.
type client struct {
	http     *http.Client
	base     *url.URL
	limit    flowcontrol.RateLimiter // nil: none
	rest     rest.Interface
	metadata metadata.Interface
	idle     func() // closes idle connections

	// The mutex of cluster guards the rest.
	users  int
	probed time.Time // when the oldest unanswered probe began, or zero
}

// newClient returns a client for a configuration, which it may change. left is for [impatient].
func newClient(config *rest.Config, options Options, left chan struct{}) (*client, error) {
	config.Timeout = 0
	config.WarningHandler, config.WarningHandlerWithContext = rest.NoWarnings{}, nil
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	// call waits for the rate limit before the timeout of the request begins.
	limit := config.RateLimiter
	qps, burst := cmp.Or(config.QPS, options.QPS), cmp.Or(config.Burst, options.Burst)
	if limit == nil && qps > 0 {
		limit = flowcontrol.NewTokenBucketRateLimiter(qps, burst)
	}
	config.RateLimiter, config.QPS = nil, -1
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, driver.Terminal("the configuration's host is not valid") // the host may contain a password by mistake
	}
	if base.Scheme != "http" && base.Scheme != "https" {
		return nil, driver.Terminal("the configuration's server has the scheme %q: it can be https or http", base.Scheme)
	}
	base.User = nil
	cl := &client{base: base, limit: limit}
	if config.ExecProvider != nil {
		config.ExecProvider = config.ExecProvider.DeepCopy()
		config.ExecProvider.StdinUnavailable = true // there is no terminal for questions
	}
	if err := cl.connect(config, options, left); err != nil {
		return nil, err
	}
	config.ContentConfig = rest.ContentConfig{
		AcceptContentTypes: runtime.ContentTypeJSON, ContentType: runtime.ContentTypeJSON,
		NegotiatedSerializer: codecs(),
	}
	if cl.rest, err = rest.UnversionedRESTClientForConfigAndClient(config, cl.http); err != nil {
		return nil, driver.Terminal("the configuration is not valid")
	}
	if cl.metadata, err = metadata.NewForConfigAndClient(config, cl.http); err != nil {
		return nil, driver.Terminal("the configuration is not valid")
	}
	return cl, nil
}

func codecs() runtime.NegotiatedSerializer {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme).WithoutConversion()
}

// connect creates the pool.
func (cl *client) connect(config *rest.Config, options Options, left chan struct{}) error {
	how, err := config.TransportConfig()
	if err != nil {
		return driver.Terminal("the configuration's way to get credentials is not valid")
	}
	var pool http.RoundTripper
	if how.Transport != nil {
		pool, cl.idle = how.Transport, func() {}
	} else {
		secure, err := transport.TLSConfigFor(how)
		if err != nil {
			return &connector.Error{Class: classOfTLS(config),
				Err: errors.New("the configuration's certificate or key cannot be read, or they do not match")}
		}
		t := newTransport(secure, how)
		pool, cl.idle = t, t.CloseIdleConnections
	}
	wrapped, err := transport.HTTPWrappersForConfig(how, &limited{pool, options.MaxResponseBytes})
	if err != nil {
		return &connector.Error{
			Class: connector.ErrRetryable, Err: errors.New("the configuration's credentials cannot be read"),
		}
	}
	if from := credentialsFrom(config); from != "" {
		wrapped = &impatient{wrapped, from, left}
	}
	// A redirect could send credentials and manifests to another server.
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	cl.http = &http.Client{Transport: wrapped, CheckRedirect: noRedirect}
	return nil
}

func newTransport(secure *tls.Config, how *transport.Config) *http.Transport {
	dial := (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	if how.DialHolder != nil {
		dial = how.DialHolder.Dial
	}
	proxy := http.ProxyFromEnvironment
	if how.Proxy != nil {
		proxy = how.Proxy
	}
	return &http.Transport{
		Proxy: proxy, DialContext: dial, TLSClientConfig: secure, TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second,
		DisableCompression: how.DisableCompression,
		// These two detect a dead connection.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
	}
}

func (cl *client) close() { cl.idle() }

// ready returns the code of the answer of /readyz, and errNotReady for codes from 500.
func (cl *client) ready(ctx context.Context) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cl.base.JoinPath("readyz").String(), http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := cl.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()                                 // it was read, or is not needed
	if _, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10)); err != nil { // so the connection can be used again
		return 0, err
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		return resp.StatusCode, fmt.Errorf("%w: /readyz is HTTP %d", errNotReady, resp.StatusCode)
	}
	return resp.StatusCode, nil
}

// limited limits the bytes of answers, except for watches.
type limited struct {
	next  http.RoundTripper
	bytes int64
}

func (l *limited) RoundTrip(req *http.Request) (*http.Response, error) {
	noteSent(req)
	resp, err := l.next.RoundTrip(req)
	if err == nil && !req.URL.Query().Has("watch") {
		resp.Body = http.MaxBytesReader(nil, resp.Body, l.bytes)
	}
	return resp, err
}

// path returns the path of an object, or of all objects if name is empty.
func (k kind) path(namespace, name string) []string {
	parts := apiPath(k.resource.GroupVersion())
	if k.namespaced {
		parts = append(parts, "namespaces", namespace)
	}
	parts = append(parts, k.resource.Resource)
	if name != "" {
		parts = append(parts, name)
	}
	return parts
}

func apiPath(gv schema.GroupVersion) []string {
	if gv.Group == "" {
		return []string{"/api", gv.Version}
	}
	return []string{"/apis", gv.Group, gv.Version}
}
