// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spokes

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// lookAgain is how long the written manifests are cached: all applications use them when a hub
// starts.
const lookAgain = time.Minute

// texts are manifests by cluster and object.
type texts map[string]map[appcontext.Object][]byte

// Missing reports whether an installed object of an application is in no work, or is different
// there: the file of works was lost, or is outdated. It may miss writes of the last minute.
func (s *Spokes) Missing(ctx context.Context, r *render.Rendering) (bool, error) {
	written, err := s.written(ctx)
	if err != nil {
		return false, err
	}
	for id, resource := range r.Installed() {
		if !same(written[id.Cluster.Name][id.Object], resource.Manifest) {
			return true, nil
		}
	}
	return false, nil
}

// written returns the manifests in works. It lists them from the source, because informers may not
// have synced yet.
func (s *Spokes) written(ctx context.Context) (texts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found != nil {
		return s.found, nil
	}
	works, err := s.Clientset().WorkV1().ManifestWorks(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: manifestwork.LabelManager + "=" + manager})
	if err != nil {
		return nil, err
	}
	found := texts{}
	for i := range works.Items {
		w := &works.Items[i]
		if w.DeletionTimestamp != nil {
			continue
		}
		if found[w.Namespace] == nil {
			found[w.Namespace] = map[appcontext.Object][]byte{}
		}
		for _, m := range w.Spec.Workload.Manifests {
			if o, err := appcontext.ParseObject(m.Raw); err == nil {
				found[w.Namespace][o] = m.Raw
			}
		}
	}
	s.found = found
	time.AfterFunc(lookAgain, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.found = nil
	})
	return found, nil
}

// same reports whether two JSON manifests are equal.
func same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
