// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

// New validates the options and returns a Watcher that is not started. It makes no request. The
// error is an [ErrInvalidInput] with the name of the option, or the reason why a client could not
// be created.
func New(options *Options) (w *Watcher, err error) {
	if err = options.validate(); err == nil {
		w = newWatcher(options.withDefaults())
		err = w.connect()
	}
	if err == nil {
		err = w.measure()
	}
	if err != nil {
		return nil, fmt.Errorf("dynamicwatcher.New: %w", err)
	}
	return w, nil
}

func newWatcher(options Options) *Watcher {
	return &Watcher{
		options:  options,
		started:  make(chan struct{}),
		ended:    make(chan struct{}),
		registry: newRegistry(),
		groups:   map[sharedKey]*shared{},
		arrivals: map[schema.GroupVersionKind]*arrival{},
		batches:  map[ObjectIdentifier]*batch{},
		due:      map[ObjectIdentifier]struct{}{},
		logger:   klog.Background(),
	}
}

// NewForConfig is [New] with the configuration and the reconciler as arguments, which replace those
// of the options.
func NewForConfig(cfg *rest.Config, r Reconciler, o *Options) (*Watcher, error) {
	var options Options
	if o != nil {
		options = *o
	}
	options.Config, options.Reconciler = cfg, r
	return New(&options)
}

// NewWithClients is [NewForConfig] with ready clients, as in kubernetes-dependency-watches. Each
// watch then lists and watches whole objects, which takes more goroutines and memory.
// Options.Config, HTTPClient, Metadata, Dynamic, Mapper and Consolidate have no effect. If the
// options are invalid, Start returns the error.
func NewWithClients(
	dynamicClient dynamic.Interface, discoveryClient discovery.DiscoveryInterface, r Reconciler, o *Options,
) *Watcher {
	var options Options
	if o != nil {
		options = *o
	}
	options.Reconciler = r
	w := newWatcher(options.withDefaults())
	lookups := discovery.ToDiscoveryInterfaceWithContext(discoveryClient)
	w.kinds = newKinds(lookups, nil, w.options.ObjectCacheOptions, w.options.Clock)
	w.opener = &stream.Clients{Dynamic: dynamicClient}
	if w.invalid = options.validate(); w.invalid == nil {
		w.invalid = w.measure()
	}
	return w
}

// connect creates the clients.
func (w *Watcher) connect() error {
	config := w.options.Config
	injected := w.options.Dynamic != nil || w.options.Metadata != nil && !w.options.EnableCache
	if injected {
		w.opener = &stream.Clients{Metadata: w.options.Metadata, Dynamic: w.options.Dynamic}
	}
	if config == nil && w.options.Mapper != nil && injected { // no direct requests to a server
		w.kinds = newKinds(nil, w.options.Mapper, w.options.ObjectCacheOptions, w.options.Clock)
		return nil
	}
	if config == nil {
		var err error
		if config, err = defaultConfig(); err != nil {
			return err
		}
	}
	config = rest.CopyConfig(config)
	lookups := stream.OwnTransport(config)
	lookups.QPS = -1 // no limit for few requests: one for each group version
	client := w.options.HTTPClient
	var err error
	if client == nil {
		if client, err = rest.HTTPClientFor(lookups); err != nil {
			return err
		}
		w.lookups = client
	}
	d, err := discovery.NewDiscoveryClientForConfigAndClient(lookups, client)
	if err != nil {
		return err
	}
	w.kinds = newKinds(d, w.options.Mapper, w.options.ObjectCacheOptions, w.options.Clock)
	if injected {
		return nil
	}
	w.wide, err = stream.NewHTTP(config, w.options.HTTPClient, w.options.Clock)
	w.opener = w.wide
	return err
}

func defaultConfig() (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if !errors.Is(err, rest.ErrNotInCluster) {
		return config, err
	}
	files := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(files, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("Options.Config is nil and the process is not in a cluster: "+
			"set Config, or Mapper with Dynamic or Metadata: load kubeconfig: %w", err)
	}
	return config, nil
}
