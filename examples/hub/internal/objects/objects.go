// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package objects reads the Secrets and ConfigMaps of the hub's cluster that templates name, and
// watches them. When one changes, the applications that have read it are rendered again. Each
// object has one API watch, also if several applications read it.
package objects

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/logging"
)

// Auto replaces the name of a kubeconfig: it selects the kubeconfig of the environment, of the pod,
// or of kubectl.
const Auto = "auto"

// Objects reads objects of one cluster, or of none.
type Objects struct {
	watcher dynamicwatcher.DynamicWatcher // nil without a cluster
	mapper  meta.RESTMapper
	host    string
	server  rest.Interface
	away    atomic.Pointer[error]
}

// changed is called with an application and the cause when an object has changed that its last Read
// has read. If it returns an error, it is called again after a pause.
type changed = func(ctx context.Context, application, cause string) error

// Open returns the objects of the cluster of a kubeconfig; without a cluster if file is "".
func Open(file string, registerer prometheus.Registerer, f changed) (*Objects, error) {
	if file == "" {
		return &Objects{}, nil
	}
	if file == Auto {
		file = ""
	}
	config, err := command.LoadKubeconfig("--kubeconfig", file)
	if err != nil {
		return nil, err
	}
	return open(config, registerer, f)
}

func open(config *rest.Config, registerer prometheus.Registerer, f changed) (*Objects, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, client)
	if err != nil {
		return nil, err
	}
	server, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	o, err := watch(dynamicwatcher.Options{Config: config, Mapper: readable(), MetricsRegisterer: registerer}, mapper, f)
	if err == nil {
		o.host, o.server = config.Host, server.RESTClient()
	}
	return o, err
}

// readable maps the kinds that templates read. Their objects are watched, and reported when they
// are created, even if the cluster has been unreachable since the start and its kinds cannot be
// discovered.
func readable() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Secret", "ConfigMap"} {
		m.Add(schema.GroupVersionKind{Version: "v1", Kind: kind}, meta.RESTScopeNamespace)
	}
	return m
}

// watch returns objects with a watcher that has these options.
func watch(options dynamicwatcher.Options, mapper meta.RESTMapper, f changed) (*Objects, error) {
	options.EnableCache, options.Name = true, "templates"
	options.Reconciler = dynamicwatcher.ReconcilerFunc(func(ctx context.Context,
		application dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
		cause := "objects that its templates read have changed"
		if triggers := dynamicwatcher.TriggersFrom(ctx); len(triggers) == 1 {
			t := triggers[0]
			cause = fmt.Sprintf("%s %s/%s: %s", t.Watched.Kind, t.Watched.Namespace, t.Watched.Name, t.Type)
		}
		return reconcile.Result{}, f(ctx, application.Name, cause)
	})
	watcher, err := dynamicwatcher.New(&options)
	if err != nil {
		return nil, err
	}
	return &Objects{watcher: watcher, mapper: mapper}, nil
}

// Mapper returns the REST mapper of the cluster. It is nil without a cluster.
func (o *Objects) Mapper() meta.RESTMapper { return o.mapper }

// Host returns the address of the API server, or "" without a cluster.
func (o *Objects) Host() string { return o.host }

// Away returns why the API server does not answer, or nil. Watch checks it.
func (o *Objects) Away() error {
	if err := o.away.Load(); err != nil {
		return *err
	}
	return nil
}

// Watch checks the API server until ctx ends, and logs when it does not answer, and answers again.
func (o *Objects) Watch(ctx context.Context) error {
	if o.host == "" {
		return nil
	}
	return logging.Watch{
		Lost: "Lost the API server of --kubeconfig", Back: "Reached the API server of --kubeconfig again",
		KeysAndValues: []any{"address", o.host}, Interval: 2 * time.Second,
		Check: func(ctx context.Context) error {
			err := o.server.Get().AbsPath("/version").Do(ctx).Error()
			if o.away.Store(nil); err != nil {
				o.away.Store(&err)
			}
			return err
		},
	}.Start(ctx)
}

// Start runs the watches until ctx ends.
func (o *Objects) Start(ctx context.Context) error {
	if o.watcher == nil {
		return nil
	}
	return o.watcher.Start(ctx)
}

// Started returns a channel that is closed when Read works.
func (o *Objects) Started() <-chan struct{} {
	if o.watcher == nil {
		now := make(chan struct{})
		close(now)
		return now
	}
	return o.watcher.Started()
}

// Read calls read once, with the objects for one application, and returns its error. The
// application watches the objects that read reads, even if read fails, because missing objects may
// be created later.
func (o *Objects) Read(ctx context.Context, application string, read func(render.Objects) error) error {
	if o.watcher == nil {
		return read(render.Without{})
	}
	var failed error
	err := o.watcher.QueryBatch(ctx, identify(application), func(q dynamicwatcher.Querier) error {
		failed = read(reader{q, identify(application)})
		return nil
	})
	return errors.Join(failed, err)
}

// Forget ends the watches of an application.
func (o *Objects) Forget(application string) error {
	if o.watcher == nil {
		return nil
	}
	return o.watcher.RemoveWatcher(identify(application))
}

func identify(application string) dynamicwatcher.ObjectIdentifier {
	gv, _ := schema.ParseGroupVersion(document.APIVersion)
	return dynamicwatcher.ObjectIdentifier{
		Group: gv.Group, Version: gv.Version, Kind: string(document.ApplicationKind), Name: application,
	}
}

// reader reads objects within a batch.
type reader struct {
	querier dynamicwatcher.Querier
	who     dynamicwatcher.ObjectIdentifier
}

// Value implements [render.Objects].
func (r reader) Value(ref render.Ref) (string, error) {
	object, err := r.querier.Get(r.who, schema.GroupVersionKind{Version: "v1", Kind: ref.Kind}, ref.Namespace, ref.Name)
	var wrong *dynamicwatcher.IdentifierError
	switch {
	case errors.As(err, &wrong):
		return "", fmt.Errorf("%s cannot be read: its %s %s", ref, wrong.Field, wrong.Reason)
	case err != nil: // no access, or no answer: both may be temporary
		return "", &render.MissingError{Ref: ref, Problem: "read failed: " + err.Error()}
	case object == nil:
		return "", &render.MissingError{Ref: ref, Problem: "there is no such " + ref.Kind + " on the hub's cluster"}
	}
	value, found, err := valueOf(object, ref)
	switch {
	case err != nil:
		return "", &render.MissingError{Ref: ref, Problem: "its data is not valid base64"}
	case !found:
		return "", &render.MissingError{Ref: ref, Problem: "the object has no such key"}
	}
	return value, nil
}

func valueOf(object *unstructured.Unstructured, ref render.Ref) (string, bool, error) {
	value, found, err := unstructured.NestedString(object.Object, "data", ref.Key)
	if ref.Kind == "ConfigMap" {
		if found || err != nil {
			return value, found, err
		}
		value, found, err = unstructured.NestedString(object.Object, "binaryData", ref.Key)
	}
	if err != nil || !found {
		return "", false, err
	}
	decoded, err := base64.StdEncoding.DecodeString(value)
	return string(decoded), true, err
}
