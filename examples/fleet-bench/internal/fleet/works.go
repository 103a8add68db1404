// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"
)

// envelope is a ConfigMap as the only manifest of a work.
const envelope = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"payload","namespace":"default"},` +
	`"data":{"revision":"%d","value":"%s"}}`

// manifest returns a manifest of about Options.Size bytes. It differs for each revision.
func (f *Fleet) manifest(revision int) workv1.Manifest {
	filler := strings.Repeat("v", max(0, f.options.Size-len(envelope)))
	return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil, envelope, revision, filler)}}
}

// Create creates work i, with its name prefix followed by i. Works are distributed evenly over the
// clusters.
func (f *Fleet) Create(ctx context.Context, prefix string, i int) error {
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: prefix + strconv.Itoa(i)}}
	work.Spec.Workload.Manifests = []workv1.Manifest{f.manifest(0)}
	_, err := f.works(i).Create(ctx, work, metav1.CreateOptions{})
	return err
}

// Update changes the manifest of work i.
func (f *Fleet) Update(ctx context.Context, prefix string, i, revision int) error {
	work, err := f.works(i).Get(ctx, prefix+strconv.Itoa(i), metav1.GetOptions{})
	if err != nil {
		return err
	}
	work.Spec.Workload.Manifests = []workv1.Manifest{f.manifest(revision)}
	_, err = f.works(i).Update(ctx, work, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) { // its status arrived in the meantime
		return f.Update(ctx, prefix, i, revision)
	}
	return err
}

// Delete removes work i.
func (f *Fleet) Delete(ctx context.Context, prefix string, i int) error {
	return f.works(i).Delete(ctx, prefix+strconv.Itoa(i), metav1.DeleteOptions{})
}

// Index returns i for a name that Create has set, or false for another prefix.
func Index(name, prefix string) (int, bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(rest)
	return i, err == nil
}
