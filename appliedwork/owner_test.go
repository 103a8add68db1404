// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

func work(name string, uid string) *v1alpha1.AppliedWork {
	w := &v1alpha1.AppliedWork{Spec: v1alpha1.AppliedWorkSpec{WorkName: name, WorkNamespace: "cluster1"}}
	w.Name, w.UID = name, "us"
	if uid != "" {
		w.UID = "them"
	}
	return w
}

func TestOwnerReferences(t *testing.T) {
	us, them := work("w", ""), work("w", "them") // an older incarnation of the same name
	obj := live("1", false)
	if !appliedwork.SetOwnerReference(obj, us) || appliedwork.SetOwnerReference(obj, us) {
		t.Error("the first call sets it, the second finds it")
	}
	if !appliedwork.SetOwnerReference(obj, them) || !appliedwork.IsOwnedBy(obj, "us") ||
		!appliedwork.IsOwnedBy(obj, "them") {
		t.Error("two AppliedWorks own it side by side")
	}
	r := obj.GetOwnerReferences()[0]
	if r.BlockOwnerDeletion == nil || !*r.BlockOwnerDeletion || r.Controller != nil {
		t.Errorf("%+v, want blockOwnerDeletion and no controller", r)
	}
	r.BlockOwnerDeletion = nil
	obj.SetOwnerReferences([]metav1.OwnerReference{r})
	if !appliedwork.SetOwnerReference(obj, us) || len(obj.GetOwnerReferences()) != 1 {
		t.Error("a reference that was tampered with is mended in its place")
	}
	if appliedwork.RemoveOwnerReference(obj, "other") || !appliedwork.RemoveOwnerReference(obj, "us") ||
		obj.GetOwnerReferences() != nil {
		t.Error("only the reference with the UID goes")
	}
	if appliedwork.IsOwnedBy(obj, "") {
		t.Error("an empty UID is an owner")
	}
}
