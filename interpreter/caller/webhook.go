// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/internal/cabundle"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// webhook is a configured webhook. It does not change.
type webhook struct {
	id       string // configuration/webhook
	protocol interpreter.Protocol
	timeout  time.Duration
	ignore   bool  // failurePolicy is Ignore
	err      error // why it cannot be called

	target *url.URL
	server string // host and port, for Options.Credentials
	client *http.Client
}

// clientKey identifies an HTTP client. Webhooks with the same key share it, and its connections.
type clientKey struct {
	server   string // host and port
	service  bool
	caBundle string
}

func newWebhook(configuration, name string, seconds *int32, field string, versions []string) *webhook {
	w := &webhook{
		id:      strings.ToValidUTF8(configuration+"/"+name, "\uFFFD"), // labels of metrics must be UTF-8
		timeout: v1alpha1.DefaultTimeoutSeconds * time.Second,
	}
	if seconds != nil && *seconds > 0 {
		w.timeout = time.Duration(*seconds) * time.Second
	}
	if !slices.Contains(versions, v1alpha1.Version) {
		w.err = fmt.Errorf("%s are %q: must include %s", field, versions, v1alpha1.Version)
	}
	return w
}

func explorer(configuration string, w *v1alpha1.ResourceExploringWebhook) *webhook {
	out := newWebhook(configuration, w.Name, w.TimeoutSeconds, "exploreReviewVersions", w.ExploreReviewVersions)
	out.protocol = interpreter.ProtocolExplore
	out.ignore = w.FailurePolicy != nil && *w.FailurePolicy == admissionregistrationv1.Ignore
	return out
}

func interpreting(configuration string, w *v1alpha1.ResourceInterpreterWebhook) *webhook {
	versions := w.InterpreterContextVersions
	out := newWebhook(configuration, w.Name, w.TimeoutSeconds, "interpreterContextVersions", versions)
	out.protocol = interpreter.ProtocolInterpret
	return out
}

// clientSource returns an existing client with the key, or makes one.
type clientSource func(clientKey, func() (*http.Client, error)) (*http.Client, error)

// connect sets the target and the HTTP client of a webhook, or the error.
func (w *webhook) connect(o *Options, config admissionregistrationv1.WebhookClientConfig, clients clientSource) {
	if w.err != nil {
		return
	}
	s, port := config.Service, int32(v1alpha1.DefaultServicePort)
	allowed := o.AllowedAddresses
	switch {
	case s != nil:
		if !o.allowsService(s.Namespace, s.Name) {
			w.err = fmt.Errorf("%w: service %s/%s is not in Options.AllowedServices", ErrNotAllowed, s.Namespace, s.Name)
			return
		}
		path := "/"
		if s.Port != nil {
			port = *s.Port
		}
		if s.Path != nil {
			path = *s.Path
		}
		w.server = net.JoinHostPort(s.Name+"."+s.Namespace+".svc", strconv.Itoa(int(port)))
		w.target = &url.URL{Scheme: "https", Host: w.server, Path: path}
	case config.URL != nil:
		target, err := url.Parse(*config.URL)
		if err != nil || target.Scheme != "https" || target.Host == "" {
			w.err = errors.New("clientConfig.url is not an https URL")
			return
		}
		host, port := strings.ToLower(target.Hostname()), cmp.Or(target.Port(), "443")
		ok, exact := o.allowsHost(host, port)
		if !ok {
			w.err = fmt.Errorf("%w: host %s is not in Options.AllowedHosts", ErrNotAllowed, net.JoinHostPort(host, port))
			return
		}
		if exact {
			allowed = slices.Concat(allowed, exactAddresses(host))
		}
		if addr, err := netip.ParseAddr(host); err == nil { // a proxy does not check it
			if w.err = checkAddress(addr, allowed); w.err != nil {
				return
			}
		}
		w.server, w.target = net.JoinHostPort(host, port), target
	default:
		w.err = errors.New("clientConfig has neither url nor service")
		return
	}
	k := clientKey{server: w.server, service: s != nil, caBundle: string(config.CABundle)}
	w.client, w.err = clients(k, func() (*http.Client, error) { return newClient(o, k, s, port, allowed) })
}

func newClient(
	o *Options, k clientKey, service *admissionregistrationv1.ServiceReference, port int32, allowed []netip.Prefix,
) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs}
	if k.caBundle != "" {
		if err := cabundle.Check([]byte(k.caBundle)); err != nil {
			return nil, fmt.Errorf("clientConfig.caBundle %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM([]byte(k.caBundle))
	}
	transport := &http.Transport{
		TLSClientConfig: config, DialContext: dialer(o, checked(allowed)), ForceAttemptHTTP2: true, DisableCompression: true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
		MaxIdleConnsPerHost: 100, MaxResponseHeaderBytes: 64 << 10,
	}
	if service != nil {
		config.ServerName = service.Name + "." + service.Namespace + ".svc"
		if o.ResolveService != nil {
			transport.DialContext = dialService(o, service.Namespace, service.Name, port)
		}
	} else {
		useProxy(o, transport)
	}
	if o.Credentials != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			c := o.Credentials(k.server)
			if c.CertFile == "" {
				return &tls.Certificate{}, nil // none
			}
			certificate, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
			return &certificate, err
		}
	}
	return &http.Client{
		Transport: transport,
		// A redirect would send the object and the token to a server that is not configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

func dialService(o *Options, namespace, name string, port int32) dialFunc {
	dial := dialer(o, nil)
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		address, err := o.ResolveService(ctx, namespace, name, port)
		if err != nil {
			return nil, fmt.Errorf("resolve service %s/%s: %w", namespace, name, err)
		}
		return dial(ctx, network, address)
	}
}
