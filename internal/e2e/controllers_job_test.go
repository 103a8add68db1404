// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// runTheJob creates, updates and deletes works, and waits until both controllers have processed
// them.
func runTheJob(t *testing.T, works worktyped.ManifestWorkInterface, spoke kubernetes.Interface, name string) {
	t.Helper()
	const count = 20
	manifest := func(i int, value string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s-%d","namespace":"default"},"data":{"value":%q}}`, name, i, value)
	}
	for i := range count {
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("w", i)}, Spec: spec(manifest(i, "1"))}
		if _, err := works.Create(t.Context(), w, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	settled := func(i int, generation, value string) error {
		w, err := works.Get(t.Context(), fmt.Sprint("w", i), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := w.Annotations[mirrored]; got != generation {
			return fmt.Errorf("the mirror shows generation %q, want %s", got, generation)
		}
		cm, err := spoke.CoreV1().ConfigMaps("default").Get(t.Context(), fmt.Sprintf("%s-%d", name, i), metav1.GetOptions{})
		if err == nil && cm.Data["value"] != value {
			err = fmt.Errorf("value %q, want %s", cm.Data["value"], value)
		}
		return err
	}
	for i := range count {
		eventually(t, fmt.Sprint("w", i, " created"), func() error { return settled(i, "1", "1") })
	}
	for i := range count {
		eventually(t, fmt.Sprint("w", i, " update"), func() error {
			w, err := works.Get(t.Context(), fmt.Sprint("w", i), metav1.GetOptions{})
			if err != nil {
				return err
			}
			w.Spec = spec(manifest(i, "2"))
			_, err = works.Update(t.Context(), w, metav1.UpdateOptions{})
			return err
		})
	}
	for i := range count {
		eventually(t, fmt.Sprint("w", i, " updated"), func() error { return settled(i, "2", "2") })
	}
	if err := works.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all gone", func() error {
		l, err := works.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(l.Items) > 0 {
			return fmt.Errorf("%d works left", len(l.Items))
		}
		_, err = spoke.CoreV1().ConfigMaps("default").Get(t.Context(), name+"-0", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("a manifest is left"), err)
	})
}
