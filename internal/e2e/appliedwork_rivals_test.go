// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
)

// rival writes to the objects of a run: it owns, deletes and recreates them, strips references,
// sets finalizers and changes values. At the end it removes its finalizers.
type rival struct {
	*campaign
	random *rand.Rand
	held   []*unstructured.Unstructured
}

const holdFinalizer = "example.com/hold"

func (r *rival) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(r.random.IntN(30)) * time.Millisecond):
			r.act()
		}
	}
	for _, obj := range r.held {
		for !r.change(obj, func(live *unstructured.Unstructured) { live.SetFinalizers(nil) }) {
		}
	}
}

// act makes one random change. A change that fails because of a faster writer is skipped.
func (r *rival) act() {
	obj := r.universe[r.random.IntN(len(r.universe))]
	ctx, client := context.Background(), r.g.at(obj)
	switch r.random.IntN(7) {
	case 0: // own it too
		r.change(obj, func(live *unstructured.Unstructured) {
			if appliedwork.IsOwnedBy(live, r.anchor.GetUID()) {
				return
			}
			live.SetOwnerReferences(append(live.GetOwnerReferences(), metav1.OwnerReference{
				APIVersion: r.anchor.GetAPIVersion(), Kind: r.anchor.GetKind(), Name: r.anchor.GetName(), UID: r.anchor.GetUID(),
			}))
		})
	case 1: // delete it
		if obj.GetKind() != "Namespace" || r.random.IntN(4) == 0 {
			_ = client.Delete(ctx, obj.GetName(), metav1.DeleteOptions{})
		}
	case 2: // delete it and make another
		_ = client.Delete(ctx, obj.GetName(), metav1.DeleteOptions{})
		_, _ = client.Create(ctx, obj, metav1.CreateOptions{})
	case 3: // be there first
		_, _ = client.Create(ctx, obj, metav1.CreateOptions{})
	case 4: // take the references out
		r.change(obj, func(live *unstructured.Unstructured) { live.SetOwnerReferences(nil) })
	case 5: // hold it
		if obj.GetKind() != "Namespace" {
			r.held = append(r.held, obj)
			r.change(obj, func(live *unstructured.Unstructured) { live.SetFinalizers([]string{holdFinalizer}) })
		}
	case 6: // change it
		r.change(obj, func(live *unstructured.Unstructured) {
			if live.GetKind() == "ConfigMap" {
				live.Object["data"] = map[string]any{"value": "theirs"}
			}
		})
	}
}

// change updates an object, if it exists. It returns false if another writer was faster.
func (r *rival) change(obj *unstructured.Unstructured, do func(*unstructured.Unstructured)) bool {
	live, err := r.g.at(obj).Get(context.Background(), obj.GetName(), metav1.GetOptions{})
	if err != nil {
		return apierrors.IsNotFound(err) && !appliedwork.IsTypeNotServed(err)
	}
	do(live)
	_, err = r.g.at(live).Update(context.Background(), live, metav1.UpdateOptions{})
	return err == nil
}
