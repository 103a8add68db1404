// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package values reads values of the Secrets and ConfigMaps of a cluster, for example for
// templates, and watches the objects. When one changes, the readers that have read it are notified.
// Each object has one API watch, also if several readers read it.
//
//	v, err := values.New(values.Options{Watcher: dynamicwatcher.Options{Config: config}, Changed: render})
//	go v.Start(ctx)
//	<-v.Started()
//	err = v.Read(ctx, "shop", func(r values.Reader) error {
//		password, err := r.Value(values.Ref{Kind: "Secret", Namespace: "shop", Name: "db", Key: "password"})
//		...
//	})
//
// Errors have no values of objects. A program needs the rights to get and watch the objects that it
// reads, and to list them.
package values

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
)

// The kinds of objects that have values.
const (
	KindSecret    = "Secret"
	KindConfigMap = "ConfigMap"
)

// Ref identifies a value of a Secret or a ConfigMap.
type Ref struct{ Kind, Namespace, Name, Key string }

// String returns "Secret shop/password, key user".
func (r Ref) String() string {
	return fmt.Sprintf("%s %s/%s, key %s", r.Kind, r.Namespace, r.Name, r.Key)
}

// Reader reads values. Its errors must not contain values.
type Reader interface {
	// Value returns a value. The error is a [*MissingError] if the value may become available.
	Value(Ref) (string, error)
}

// MissingError is returned for a value that is not available now.
type MissingError struct {
	Ref Ref
	// Problem is the reason.
	Problem string
}

// Error returns the reference and the problem.
func (e *MissingError) Error() string { return e.Ref.String() + ": " + e.Problem }

// Without is a [Reader] without a cluster: Value always fails. It is the reason, for example "the
// program has no --kubeconfig".
type Without string

// Value implements [Reader].
func (w Without) Value(ref Ref) (string, error) {
	return "", fmt.Errorf("%s cannot be read: %s", ref, string(w))
}

// Kept returns values that were read before, by the text of their Ref, and reads other values from
// Other.
type Kept struct {
	Values map[string]string
	Other  Reader
}

// Value implements [Reader].
func (k Kept) Value(ref Ref) (string, error) {
	if value, ok := k.Values[ref.String()]; ok {
		return value, nil
	}
	return k.Other.Value(ref)
}

// Options configures [New].
type Options struct {
	// Watcher configures the connection to the cluster. New sets its Reconciler, EnableCache and
	// Mapper.
	Watcher dynamicwatcher.Options
	// Kind is the kind of the readers, for logs. Defaults to the kind Reader.
	Kind schema.GroupVersionKind
	// Changed is called with the name of a reader and the cause when an object has changed that its
	// last Read has read. If it returns an error, it is called again after a pause. Required.
	Changed func(ctx context.Context, reader, cause string) error
}

// Values reads values of one cluster, or of no cluster. Its methods may be called concurrently.
type Values struct {
	watcher dynamicwatcher.DynamicWatcher // nil without a cluster
	without Without
	kind    schema.GroupVersionKind
}

// None returns values without a cluster: each read fails with the reason.
func None(reason Without) *Values { return &Values{without: reason} }

// New returns the values of a cluster. It starts nothing. It returns the errors of
// [dynamicwatcher.New].
func New(o Options) (*Values, error) {
	if o.Changed == nil {
		return nil, errors.New("invalid Options.Changed: nil: a function is required")
	}
	if o.Kind.Kind == "" {
		o.Kind = schema.GroupVersionKind{Version: "v1", Kind: "Reader"}
	}
	o.Watcher.EnableCache, o.Watcher.Mapper = true, readable()
	o.Watcher.Reconciler = dynamicwatcher.ReconcilerFunc(func(
		ctx context.Context, reader dynamicwatcher.ObjectIdentifier,
	) (reconcile.Result, error) {
		cause := "objects that it has read have changed"
		if triggers := dynamicwatcher.TriggersFrom(ctx); len(triggers) == 1 {
			t := triggers[0]
			cause = fmt.Sprintf("%s %s/%s: %s", t.Watched.Kind, t.Watched.Namespace, t.Watched.Name, t.Type)
		}
		return reconcile.Result{}, o.Changed(ctx, reader.Name, cause)
	})
	watcher, err := dynamicwatcher.New(&o.Watcher)
	if err != nil {
		return nil, err
	}
	return &Values{watcher: watcher, kind: o.Kind}, nil
}

// readable maps the kinds that have values. Their objects are watched, and reported when they are
// created, even if the cluster has been unreachable since the start and its kinds cannot be
// discovered.
func readable() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{KindSecret, KindConfigMap} {
		m.Add(schema.GroupVersionKind{Version: "v1", Kind: kind}, meta.RESTScopeNamespace)
	}
	return m
}

// Start runs the watches until ctx ends.
func (v *Values) Start(ctx context.Context) error {
	if v.watcher == nil {
		return nil
	}
	return v.watcher.Start(ctx)
}

// Started returns a channel that is closed when Read works.
func (v *Values) Started() <-chan struct{} {
	if v.watcher == nil {
		now := make(chan struct{})
		close(now)
		return now
	}
	return v.watcher.Started()
}

// Read calls read once, with the values for one reader, and returns its error. The reader watches
// the objects that read reads, even if read fails, because missing objects may be created later.
func (v *Values) Read(ctx context.Context, reader string, read func(Reader) error) error {
	if v.watcher == nil {
		return read(v.without)
	}
	var failed error
	err := v.watcher.QueryBatch(ctx, v.identify(reader), func(q dynamicwatcher.Querier) error {
		failed = read(batch{q, v.identify(reader)})
		return nil
	})
	return errors.Join(failed, err)
}

// Forget ends the watches of a reader.
func (v *Values) Forget(reader string) error {
	if v.watcher == nil {
		return nil
	}
	return v.watcher.RemoveWatcher(v.identify(reader))
}

func (v *Values) identify(reader string) dynamicwatcher.ObjectIdentifier {
	return dynamicwatcher.ObjectIdentifier{
		Group: v.kind.Group, Version: v.kind.Version, Kind: v.kind.Kind, Name: reader,
	}
}

// batch reads objects within a batch.
type batch struct {
	querier dynamicwatcher.Querier
	who     dynamicwatcher.ObjectIdentifier
}

// Value implements [Reader].
func (b batch) Value(ref Ref) (string, error) {
	object, err := b.querier.Get(b.who, schema.GroupVersionKind{Version: "v1", Kind: ref.Kind}, ref.Namespace, ref.Name)
	var wrong *dynamicwatcher.IdentifierError
	switch {
	case errors.As(err, &wrong):
		return "", fmt.Errorf("%s cannot be read: its %s %s", ref, wrong.Field, wrong.Reason)
	case err != nil: // no access, or no answer: both may be temporary
		return "", &MissingError{Ref: ref, Problem: "read failed: " + err.Error()}
	case object == nil:
		return "", &MissingError{Ref: ref, Problem: "there is no such " + ref.Kind + " on the cluster"}
	}
	value, found, err := valueOf(object, ref)
	switch {
	case err != nil:
		return "", &MissingError{Ref: ref, Problem: "its data is not valid base64"}
	case !found:
		return "", &MissingError{Ref: ref, Problem: "the object has no such key"}
	}
	return value, nil
}

func valueOf(object *unstructured.Unstructured, ref Ref) (string, bool, error) {
	value, found, err := unstructured.NestedString(object.Object, "data", ref.Key)
	if ref.Kind == KindConfigMap {
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
