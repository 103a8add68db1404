// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spokes

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// Missing reports whether some of what an application has for as long as it is there is in no work, or not as it is to be: the file of works was lost, or is
// of an earlier day.
func (s *Spokes) Missing(ctx context.Context, r *render.Rendering) (bool, error) {
	written := map[string]map[appcontext.Object][]byte{}
	for id, resource := range r.Installed() {
		if written[id.Cluster.Name] == nil {
			var err error
			if written[id.Cluster.Name], err = s.written(ctx, id.Cluster.Name); err != nil {
				return false, err
			}
		}
		if !same(written[id.Cluster.Name][id.Object], resource.Manifest) {
			return true, nil
		}
	}
	return false, nil
}

// written returns the manifests of a cluster. It asks the source itself, since informers may not have synced yet.
func (s *Spokes) written(ctx context.Context, cluster string) (map[appcontext.Object][]byte, error) {
	works, err := s.Clientset().WorkV1().ManifestWorks(cluster).List(ctx, metav1.ListOptions{LabelSelector: manifestwork.LabelManager + "=" + manager})
	if err != nil {
		return nil, err
	}
	out := map[appcontext.Object][]byte{}
	for i := range works.Items {
		w := &works.Items[i]
		if w.DeletionTimestamp != nil {
			continue
		}
		for _, m := range w.Spec.Workload.Manifests {
			if o, err := appcontext.ParseObject(m.Raw); err == nil {
				out[o] = m.Raw
			}
		}
	}
	return out, nil
}

// same compares manifests in JSON.
func same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
