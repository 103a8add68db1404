// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/interpreter"
)

// Caller calls the webhook that is configured for an object and an operation. It is an
// [interpreter.Interpreter]. All methods may be called from any goroutine.
type Caller struct {
	interpreter.Ask
	options Options
	metrics *metrics
	index   atomic.Pointer[index]
	ready   chan struct{}
	started atomic.Bool

	mu      sync.Mutex // for changes of the configurations
	clients map[clientKey]*http.Client

	knownMu sync.RWMutex
	known   map[schema.GroupVersionKind]string // the resources that the mapper returned
}

// maxKinds bounds Caller.known, since users choose the kinds of objects.
const maxKinds = 4096

// New returns a caller without webhooks. The error names the invalid option.
func New(options Options) (*Caller, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	c := &Caller{options: options.withDefaults(), ready: make(chan struct{}), clients: map[clientKey]*http.Client{}}
	c.Ask = interpreter.Ask{Interpreter: c}
	c.metrics = newMetrics(c)
	if err := c.metrics.register(options.MetricsRegisterer); err != nil {
		return nil, err
	}
	return c, nil
}

// SetConfigurations replaces all configurations. If a configuration is invalid, or two of one protocol
// have the same name, nothing changes. The error is then an aggregate of the first 10 field errors,
// with the name of each configuration. It returns an error if Options.Client is set.
func (c *Caller) SetConfigurations(configurations Configurations) error {
	if c.options.Client != nil {
		return errors.New("set configurations: Options.Client is set, and provides them")
	}
	var errs field.ErrorList
	names := map[string]bool{} // of one protocol
	check := func(name string, found field.ErrorList) {
		if names[name] {
			found = append(found, field.Duplicate(field.NewPath("metadata", "name"), name))
		}
		names[name] = true
		for _, e := range found {
			e.Field = name + ": " + e.Field
		}
		errs = append(errs, found...)
	}
	for i := range configurations.Exploring {
		check(configurations.Exploring[i].Name, configurations.Exploring[i].Validate())
	}
	clear(names)
	for i := range configurations.Interpreting {
		check(configurations.Interpreting[i].Name, configurations.Interpreting[i].Validate())
	}
	if len(errs) > 0 {
		return aggregate(errs)
	}
	return c.set(configurations, true)
}

// aggregate counts errors after the first: the text of an aggregate takes quadratic time.
func aggregate(errs field.ErrorList) utilerrors.Aggregate {
	const most = 10
	if len(errs) <= most {
		return errs.ToAggregate()
	}
	others := fmt.Errorf("%d more errors", len(errs)-most)
	return utilerrors.NewAggregate(append(errs[:most].ToAggregate().Errors(), others))
}

// set replaces the index. It keeps the HTTP clients, and so the connections, of remaining servers.
func (c *Caller) set(configurations Configurations, strict bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := map[clientKey]*http.Client{}
	clients := func(k clientKey, make func() (*http.Client, error)) (*http.Client, error) {
		if client := used[k]; client != nil {
			return client, nil
		}
		var err error
		client := c.clients[k]
		if client == nil {
			client, err = make()
		}
		if err == nil {
			used[k] = client
		}
		return client, err
	}
	x := newIndex(c.rulesets(configurations, clients))
	if x.named && c.options.Mapper == nil {
		if strict {
			return errors.New("invalid Options.Mapper: required: a rule of the Explore protocol names a resource")
		}
		klog.Background().Error(nil, "Ignored rules that name resources, because Options.Mapper is not set")
	}
	old, before := c.clients, c.index.Load()
	c.clients = used
	c.index.Store(x)
	c.metrics.forget(before, x)
	for k, client := range old {
		if used[k] == nil {
			client.CloseIdleConnections()
		}
	}
	return nil
}

func (c *Caller) rulesets(configurations Configurations, clients clientSource) []ruleset {
	var out []ruleset
	for i := range configurations.Exploring {
		configuration := configurations.Exploring[i].DeepCopy()
		for j := range configuration.Webhooks {
			hook := &configuration.Webhooks[j]
			w := explorer(configuration.Name, hook)
			w.connect(&c.options, hook.ClientConfig, clients)
			out = append(out, ruleset{webhook: w, resources: hook.Rules})
		}
	}
	for i := range configurations.Interpreting {
		configuration := configurations.Interpreting[i].DeepCopy()
		for j := range configuration.Webhooks {
			hook := &configuration.Webhooks[j]
			w := interpreting(configuration.Name, hook)
			w.connect(&c.options, hook.ClientConfig, clients)
			out = append(out, ruleset{webhook: w, kinds: hook.Rules})
		}
	}
	return out
}

// Interpret implements [interpreter.Interpreter]. Of the webhooks with a rule for the object and
// the operation, it calls the first by ID (configuration/webhook). The errors are
//
//   - [interpreter.ErrNotInterpreted] if no webhook has such a rule;
//   - [interpreter.ErrNotInterpreted] and a [*CallError] if the webhook answered with code 501, or
//     if the call failed and the failure policy is Ignore;
//   - a [*CallError] if the call failed otherwise;
//   - an [*interpreter.RequestError] if the query has no object; other mistakes in a query cause it
//     only if a webhook matches;
//   - [ErrNotReady] if the configurations are not known yet;
//   - an error of Options.Mapper, unless it reports that the kind does not exist.
func (c *Caller) Interpret(ctx context.Context, q interpreter.Query) (interpreter.Answer, error) {
	if q.Object == nil {
		_, err := q.Request(interpreter.ProtocolInterpret, "")
		return interpreter.Answer{}, err
	}
	w, err := c.find(q.Operation, q.Object.GroupVersionKind(), q.Object.GetNamespace() != "")
	if err != nil {
		return interpreter.Answer{}, err
	}
	if w == nil {
		return interpreter.Answer{}, fmt.Errorf("%w: no webhook has a rule for %s of %s %s", interpreter.ErrNotInterpreted,
			q.Operation, q.Object.GetAPIVersion(), q.Object.GetKind())
	}
	done := c.metrics.begin(w, q.Operation)
	answer, err := c.call(ctx, w, &q)
	done(err)
	var failed *CallError
	switch {
	case !errors.As(err, &failed):
		return answer, err
	case failed.Reason == ReasonNotImplemented:
	case w.ignore && failed.Reason != ReasonCanceled:
		klog.FromContext(ctx).V(1).Info("Ignored failed call",
			"webhook", w.id, "operation", q.Operation, "reason", failed.Reason)
	default:
		return answer, err
	}
	return interpreter.Answer{}, fmt.Errorf("%w: %w", interpreter.ErrNotInterpreted, err)
}

// Match returns the ID, configuration/webhook, of the webhook that Interpret calls, or "" without
// one. It does not allocate. Namespaced is whether the object has a namespace. The error is
// [ErrNotReady] or one of Options.Mapper, as from Interpret.
func (c *Caller) Match(operation interpreter.Operation, kind schema.GroupVersionKind, namespaced bool) (string, error) {
	w, err := c.find(operation, kind, namespaced)
	if w == nil || err != nil {
		return "", err
	}
	return w.id, nil
}

func (c *Caller) find(
	operation interpreter.Operation, kind schema.GroupVersionKind, namespaced bool,
) (*webhook, error) {
	x := c.index.Load()
	if x == nil {
		return nil, ErrNotReady
	}
	resource := ""
	if x.named && c.options.Mapper != nil {
		var err error
		if resource, err = c.resource(kind); err != nil {
			return nil, fmt.Errorf("find resource of %s: %w", kind, err)
		}
	}
	return x.match(operation, kind, resource, namespaced), nil
}

// resource returns the resource of a kind, or "" if the mapper finds none.
func (c *Caller) resource(kind schema.GroupVersionKind) (string, error) {
	c.knownMu.RLock()
	resource, ok := c.known[kind]
	c.knownMu.RUnlock()
	if ok {
		return resource, nil
	}
	mapping, err := c.options.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return "", nil // not cached: the kind may be added
	}
	if err != nil {
		return "", err
	}
	c.knownMu.Lock()
	defer c.knownMu.Unlock()
	if c.known == nil || len(c.known) >= maxKinds {
		c.known = map[schema.GroupVersionKind]string{}
	}
	c.known[kind] = mapping.Resource.Resource
	return mapping.Resource.Resource, nil
}

// Ready returns a channel that is closed when Start has read the configurations for the first time.
// Without Options.Client, Start closes it at once.
func (c *Caller) Ready() <-chan struct{} { return c.ready }

// Start keeps the configurations current from Options.Client, if it is set, until ctx ends. Then it
// closes idle connections, unregisters its metrics, and returns nil. A second call returns
// [ErrStarted].
func (c *Caller) Start(ctx context.Context) error {
	if !c.started.CompareAndSwap(false, true) {
		return ErrStarted
	}
	defer c.Close()
	if c.options.Client == nil {
		close(c.ready)
		<-ctx.Done()
		return nil
	}
	return c.follow(ctx)
}

// Close closes idle connections and unregisters the metrics. It is for callers that are used
// without Start. Later calls connect again.
func (c *Caller) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range c.clients {
		client.CloseIdleConnections()
	}
	c.metrics.unregister()
}
