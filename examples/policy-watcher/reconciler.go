// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
)

// reconciler renders policies.
type reconciler struct {
	client  client.Client
	reader  client.Reader                 // reads without the cache
	watcher dynamicwatcher.DynamicWatcher // watches the objects of templates
}

// Reconcile implements [reconcile.Reconciler].
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	self := dynamicwatcher.ObjectIdentifier{
		Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Namespace: request.Namespace, Name: request.Name,
	}
	p := newPolicy()
	if err := r.reader.Get(ctx, request.NamespacedName, p); apierrors.IsNotFound(err) {
		return reconcile.Result{}, r.watcher.RemoveWatcher(self)
	} else if err != nil {
		return reconcile.Result{}, err
	}
	text, _, _ := unstructured.NestedString(p.Object, "spec", "template")
	rendered, asked, failure := render(ctx, r.reader, request.Namespace, text)
	// Missing objects are watched too. If an object changed after it was read, the watcher sends a
	// trigger when it is watched.
	if err := r.watcher.AddOrUpdateWatcher(self, asked...); err != nil {
		return reconcile.Result{}, err
	}
	status := map[string]any{"rendered": rendered}
	if failure != nil {
		status = map[string]any{"error": failure.Error()} // the user must fix the template or its objects
	}
	if old, _, _ := unstructured.NestedMap(p.Object, "status"); reflect.DeepEqual(old, status) {
		return reconcile.Result{}, nil
	}
	p.Object["status"] = status
	if err := r.client.Status().Update(ctx, p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).Info("Wrote the status", "failed", failure != nil, "watches", r.watcher.GetWatchCount())
	return reconcile.Result{}, nil
}

// render executes a template. It returns the objects that the template has read, also after an
// error.
func render(
	ctx context.Context, reader client.Reader, namespace, text string,
) (out string, asked []dynamicwatcher.ObjectIdentifier, err error) {
	read := func(kind, name string, object client.Object) error {
		asked = append(asked, dynamicwatcher.ObjectIdentifier{
			Version: "v1", Kind: kind, Namespace: namespace, Name: name,
		})
		return reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	}
	t, err := template.New("template").Funcs(template.FuncMap{
		"fromSecret": func(name, key string) (string, error) {
			var s corev1.Secret
			if err := read("Secret", name, &s); err != nil {
				return "", err
			}
			return field(s.Data, "Secret", name, key)
		},
		"fromConfigMap": func(name, key string) (string, error) {
			var m corev1.ConfigMap
			if err := read("ConfigMap", name, &m); err != nil {
				return "", err
			}
			return field(m.Data, "ConfigMap", name, key)
		},
	}).Parse(text)
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	err = t.Execute(&b, nil)
	return b.String(), asked, err
}

func field[T string | []byte](data map[string]T, kind, name, key string) (string, error) {
	value, ok := data[key]
	if !ok {
		return "", fmt.Errorf("the %s %s has no %s", kind, name, key)
	}
	return string(value), nil
}
