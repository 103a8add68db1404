// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package spoke is the managed cluster: it applies the manifests of a work and removes them again.
//
// Each work has an AppliedWork on the cluster, which owns the objects of the work also when the
// agent is not running. After a crash [appliedwork] uses it to find these objects. Deleting the
// AppliedWork deletes them.
//
// A work with an executor is applied, read and deleted as that service account, by impersonation:
// the API server decides about its permissions. The agent also checks whether the account may
// delete the objects that it applies, because the owner reference deletes the object with the
// AppliedWork. Only the AppliedWork and the watches, which have metadata only, use the rights of
// the agent. An object that the executor may not read is not watched. With [Options.Executors] the
// agent sends no request for a work without an executor.
package spoke

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/utils/lru"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

const (
	// requestTimeout limits every request, so that an unresponsive cluster causes an error.
	requestTimeout = 30 * time.Second
	// mostExecutors is the maximum number of service accounts with cached clients.
	mostExecutors = 128
	// lookAgain is the maximum age of discovery that reports a kind as missing.
	lookAgain = time.Second
)

// Options configures a [Cluster].
type Options struct {
	// Config is the configuration of the agent's own access. Required.
	Config *rest.Config
	// Hub is a part of the names of AppliedWorks, with namespace and name of the work, so works of
	// different hubs are different. It must not change. Required.
	Hub string
	// Origin is the hub of the works. AppliedWorks of other hubs are not changed. Required.
	Origin Origin
	// FormerAddresses are previous addresses of the hub: AppliedWorks recorded for them move to
	// Origin.
	FormerAddresses []string
	// Adoption decides about objects that exist and that no earlier service of the work has
	// applied. An object belongs to the work if it has the owner reference to the AppliedWork, or
	// is in its inventory, whichever process has applied it. Defaults to [appliedwork.AdoptionNever].
	Adoption appliedwork.Adoption
	// Executors are the service accounts that works may have as executor, as namespace/name, where
	// * matches any characters: [AnyExecutor], "shop/*". If there are any, a work without an
	// executor, or with another one, is refused with an [*ExecutorError]. Defaults to none: any
	// executor, and the agent's own rights without one.
	Executors []string
	// SecretFeedback lets the rules of works read Secrets: feedback rules, condition rules, and
	// JSON paths and jq expressions of ignoreFields. Each of them can show a Secret to the
	// hub. Defaults to false: such rules are refused, and the Secrets are applied.
	SecretFeedback bool
	// EvictionGrace is how long the objects stay after the hub no longer has their work.
	EvictionGrace time.Duration
}

// Cluster is a managed cluster. Its methods may be called concurrently, for each work by one caller at a time.
type Cluster struct {
	options   Options
	config    *rest.Config
	discovery *discovery.DiscoveryClient
	agent     *identity
	reviews   appliedwork.SubjectAccessReviews
	executors *lru.Cache // of identities, by the user's name
	index     *appliedwork.Index

	mu       sync.Mutex
	mapper   meta.ResettableRESTMapper
	reset    time.Time
	attempts map[string]*attempt // by the name of the AppliedWork
	suspect  *attempt            // the postponed work that is being served

	started  sync.Mutex
	surveyed bool
}

// New returns a Cluster. It sends no request.
func New(o Options) (*Cluster, error) {
	if err := CheckExecutors(o.Executors); err != nil {
		return nil, fmt.Errorf("invalid Options.Executors: %w", err)
	}
	config := rest.CopyConfig(o.Config)
	config.Timeout = requestTimeout
	config.QPS = -1 // the API server's own priority and fairness limits it
	config.WarningHandlerWithContext = rest.NoWarnings{}
	rest.AddUserAgent(config, "work-agent")
	c := &Cluster{options: o, config: config, executors: lru.New(mostExecutors), index: appliedwork.NewIndex(),
		attempts: map[string]*attempt{}}
	var err error
	if c.discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return nil, err
	}
	reviews, err := authorization.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c.reviews = reviews.SubjectAccessReviews()
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.discovery))
	if c.agent, err = c.newIdentity(config, nil); err != nil {
		return nil, err
	}
	return c, nil
}

// Host returns the address of the API server.
func (c *Cluster) Host() string { return c.config.Host }

// Ping returns an error if the API server does not answer.
func (c *Cluster) Ping(ctx context.Context) error {
	return c.discovery.RESTClient().Get().AbsPath("/version").Do(ctx).Error()
}

// Install ensures that the cluster has the CRD of AppliedWork.
func (c *Cluster) Install(ctx context.Context) error {
	if err := v1alpha1.EnsureCRD(ctx, c.agent.client.Resource(v1alpha1.CRDResource)); err != nil {
		return fmt.Errorf("install the CRD of AppliedWork on %s: %w", c.config.Host, err)
	}
	return nil
}

// Away reports whether an error of [Cluster.Install] may be temporary: the API server cannot be
// reached, or cannot serve requests now.
func Away(err error) bool {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code := status.Status().Code
		return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
	}
	// Only these errors of a connection: an invalid certificate is no temporary error.
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Op == "dial" || op.Op == "read" || op.Op == "write"
	}
	return utilnet.IsTimeout(err) || utilnet.IsProbableEOF(err)
}

// Mapping implements [manifest.Kinds]. Known kinds are cached. For an unknown kind discovery runs
// again, at most once a second, because its CRD may have been created.
//
// [manifest.Kinds]: https://pkg.go.dev/github.com/spokewire/sdk-go/examples/agent/internal/manifest#Kinds
func (c *Cluster) Mapping(_ context.Context, gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if !meta.IsNoMatchError(err) {
		return mapping, err
	}
	c.mu.Lock()
	if fresh := time.Since(c.reset) < lookAgain; !fresh {
		c.mapper.Reset()
		c.reset = time.Now()
	}
	c.mu.Unlock()
	return c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
}
