// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubeaccess

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/internal/answers"
	"github.com/spokewire/sdk-go/internal/quietlog"
)

const (
	defaultTTL     = 10 * time.Second
	maxTTL         = 5 * time.Minute
	defaultTimeout = 10 * time.Second
	maxBytes       = 16 << 20 // of each cache
)

// Options configures reviews. The zero value is useful.
type Options struct {
	// CacheTTL is the time that a decision is used. Defaults to 10 s, at most 5 min.
	CacheTTL time.Duration
	// Timeout limits the time of each review. Defaults to 10 s.
	Timeout time.Duration
	// Audiences are the audiences that tokens must have, at least one of them. Defaults to those of
	// the API server, as at OCM's hub. With an audience of its own, tokens of the API server are
	// invalid here, and tokens of agents there.
	Audiences []string
}

func (o Options) validate() error {
	switch {
	case o.CacheTTL < 0 || o.CacheTTL > maxTTL:
		return fmt.Errorf("invalid CacheTTL: %v: must be between 0 and %v", o.CacheTTL, maxTTL)
	case o.Timeout < 0:
		return fmt.Errorf("invalid Timeout: %v: must not be negative", o.Timeout)
	case slices.Contains(o.Audiences, ""):
		return errors.New("invalid Audiences: one of them is empty: remove it")
	}
	return nil
}

// Reviews makes access and token reviews at an API server. Its methods may be called from any
// goroutine.
type Reviews struct {
	options                       Options
	authorization, authentication rest.Interface
	failures                      *quietlog.Log

	rights *answers.Cache[question, bool]
	tokens *answers.Cache[tokenHash, tokenAnswer]
}

var (
	_ grpc.Authorizer         = &Reviews{}
	_ grpc.TokenAuthenticator = &Reviews{}
)

// New returns reviews by the API server of a configuration. It validates the options and makes no
// request. Requests have no rate limit, unless the configuration sets one.
func New(config *rest.Config, o Options) (*Reviews, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("kubeaccess options: %w", err)
	}
	o.CacheTTL = cmp.Or(o.CacheTTL, defaultTTL)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Audiences = slices.Clone(o.Audiences)
	if config == nil {
		return nil, errors.New("kubeaccess: config is nil: pass the configuration of a Kubernetes client")
	}
	r := &Reviews{
		options:  o,
		failures: quietlog.New("Failed to review a client", "resource", clock.RealClock{}),
		rights:   answers.New(clock.RealClock{}, o.CacheTTL, maxBytes, sizeOfRight),
		tokens:   answers.New(clock.RealClock{}, o.CacheTTL, maxBytes, sizeOfToken),
	}
	if err := r.connect(rest.CopyConfig(config)); err != nil {
		return nil, fmt.Errorf("kubeaccess: %w", err)
	}
	return r, nil
}

// connect sets the clients.
func (r *Reviews) connect(config *rest.Config) error {
	if config.RateLimiter == nil && config.QPS == 0 {
		config.QPS = -1
	}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	if err := errors.Join(authorizationv1.AddToScheme(scheme), authenticationv1.AddToScheme(scheme)); err != nil {
		return err
	}
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	config.GroupVersion = &authorizationv1.SchemeGroupVersion
	if r.authorization, err = rest.RESTClientForConfigAndClient(config, client); err != nil {
		return err
	}
	config.GroupVersion = &authenticationv1.SchemeGroupVersion
	r.authentication, err = rest.RESTClientForConfigAndClient(config, client)
	return err
}

// create creates a review. client-go's log at level 8 has bodies, and so tokens: it is off.
func create(ctx context.Context, client rest.Interface, resource string, review, result runtime.Object) error {
	ctx = klog.NewContext(ctx, klog.Logger{})
	return client.Post().Resource(resource).Body(review).Do(ctx).Into(result)
}

// failure returns the error of a review without an answer. The client receives no details of the API
// server; they are logged. A review that the API server rejects as malformed is a denial, since
// another try would not help.
func (r *Reviews) failure(ctx context.Context, err error, resource string) error {
	reason, malformed := "no answer", apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
	cause := err
	if resource == reviewOfToken {
		cause = withoutText(err)
	}
	switch {
	case ctx.Err() != nil:
		return errUndecided // the client has left
	case malformed:
		reason = "rejected"
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		reason = "not allowed"
		cause = fmt.Errorf("the hub's user needs the ClusterRole system:auth-delegator: %w", cause)
	}
	r.failures.Error(klog.FromContext(ctx), cause, reason, resource)
	if malformed {
		return errors.New("the API server rejected the review")
	}
	return errUndecided
}

// withoutText returns an error without text of the API server, which may quote the request and so the
// token, in whole or in part.
func withoutText(err error) error {
	var answer apierrors.APIStatus
	var unanswered *url.Error
	switch {
	case errors.As(err, &answer):
		code := int(answer.Status().Code)
		return fmt.Errorf("the API server answered HTTP %d %s", code, http.StatusText(code))
	case errors.As(err, &unanswered), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return errors.New("the API server's answer is not a review")
}

var errUndecided = status.Error(codes.Unavailable, "the API server did not review the client: try again")
