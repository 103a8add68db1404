// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// missingInterval is the interval between checks for a missing CRD.
const missingInterval = 10 * time.Second

// follow makes a new index after each change.
func (c *Caller) follow(ctx context.Context) error {
	news := wait.NewSignal()
	exploring := c.informer(v1alpha1.ExploringWebhookConfigurations)
	interpreting := c.informer(v1alpha1.InterpreterWebhookConfigurations)
	var group sync.WaitGroup
	defer group.Wait()
	var synced []cache.InformerSynced
	changed := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { news.Set() }, UpdateFunc: func(any, any) { news.Set() }, DeleteFunc: func(any) { news.Set() },
	}
	for _, informer := range []cache.SharedIndexInformer{exploring, interpreting} {
		handler, err := informer.AddEventHandler(changed)
		if err != nil {
			return err // only after the end of the informer, which has not started
		}
		synced = append(synced, handler.HasSynced)
		group.Go(func() { informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	r := reader{caller: c}
	news.Set()
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return nil
		case <-news:
		}
		if err := c.set(r.read(ctx, exploring.GetStore(), interpreting.GetStore()), false); err != nil {
			klog.FromContext(ctx).Error(err, "Failed to replace webhook configurations")
		}
		if first {
			close(c.ready)
		}
	}
}

func (c *Caller) informer(resource schema.GroupVersionResource) cache.SharedIndexInformer {
	client := c.options.Client.Resource(resource)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := client.List(ctx, options)
			if apierrors.IsNotFound(err) {
				return &unstructured.UnstructuredList{Object: map[string]any{"metadata": map[string]any{}}}, nil
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := client.Watch(ctx, options)
			// A watch with an initial list must fail, so that the informer sends a list request
			// instead, which succeeds.
			if apierrors.IsNotFound(err) && options.SendInitialEvents == nil {
				return newPause(missingInterval), nil
			}
			return w, err
		},
	}
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, c.options.Client),
		&unstructured.Unstructured{}, 0, cache.Indexers{})
}

// pause is a watch without events that ends after a while.
type pause struct {
	events chan watch.Event
	end    func()
	timer  *time.Timer
}

func newPause(d time.Duration) *pause {
	events := make(chan watch.Event)
	end := sync.OnceFunc(func() { close(events) })
	return &pause{events: events, end: end, timer: time.AfterFunc(d, end)}
}

// ResultChan implements [watch.Interface].
func (p *pause) ResultChan() <-chan watch.Event { return p.events }

// Stop implements [watch.Interface].
func (p *pause) Stop() {
	p.timer.Stop()
	p.end()
}

// reader decodes the configurations in the stores of informers.
type reader struct {
	caller       *Caller
	exploring    map[string]v1alpha1.ResourceExploringWebhookConfiguration // of the last read, by name
	interpreting map[string]v1alpha1.ResourceInterpreterWebhookConfiguration
	logged       map[string]string // configurations with errors, to the version that was logged
}

// read returns the configurations in the stores, also invalid ones: otherwise their webhooks would
// silently not be called. If a configuration cannot be decoded, the previous version stays in effect.
// Each problem is logged once.
func (r *reader) read(ctx context.Context, exploring, interpreting cache.Store) Configurations {
	logged := map[string]string{}
	bad := func(u *unstructured.Unstructured, err error) {
		key, version := u.GetKind()+"/"+u.GetName(), u.GetResourceVersion()
		logged[key] = version
		if was, ok := r.logged[key]; !ok || was != version {
			klog.FromContext(ctx).Error(err, "Found invalid webhook configuration", "kind", u.GetKind(), "name", u.GetName())
		}
	}
	r.exploring = decode(exploring.List(), r.exploring, bad)
	r.interpreting = decode(interpreting.List(), r.interpreting, bad)
	r.logged = logged
	r.caller.metrics.invalid.Store(int64(len(logged)))
	return Configurations{
		Exploring:    slices.Collect(maps.Values(r.exploring)),
		Interpreting: slices.Collect(maps.Values(r.interpreting)),
	}
}

// validated is a pointer to a configuration.
type validated[C any] interface {
	*C
	Validate() field.ErrorList
}

// decode returns configurations by name, and calls bad for invalid ones.
func decode[C any, P validated[C]](
	list []any, before map[string]C, bad func(*unstructured.Unstructured, error),
) map[string]C {
	out := make(map[string]C, len(list))
	for _, o := range list {
		u := o.(*unstructured.Unstructured)
		configuration := new(C)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, configuration); err != nil {
			bad(u, err)
			if was, ok := before[u.GetName()]; ok {
				out[u.GetName()] = was
			}
			continue
		}
		if errs := P(configuration).Validate(); len(errs) > 0 {
			bad(u, errs.ToAggregate())
		}
		out[u.GetName()] = *configuration
	}
	return out
}
