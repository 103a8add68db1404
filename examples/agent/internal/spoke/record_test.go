// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spoke_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
)

// TestRemoveOfAnotherHub checks that a deleted work is not reported as removed while a record may
// have its objects. The record has the former address of the hub.
func TestRemoveOfAnotherHub(t *testing.T) {
	for _, tt := range []struct {
		name, recorded string
		done           bool
	}{
		{"of this very work", `{"hub":{"address":"https://before"},"work":"u1"}`, false},
		{"of a work that nobody knows", `{"hub":{"address":"https://before"}}`, false},
		{"of another work of that name", `{"hub":{"address":"https://other"},"work":"u2"}`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			record := &v1alpha1.AppliedWork{}
			record.APIVersion, record.Kind = v1alpha1.GroupVersion.String(), "AppliedWork"
			record.Name, record.UID, record.Annotations = "r", "r1",
				map[string]string{"hub.spokewire.io/work-agent": tt.recorded}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					t.Errorf("%s %s", r.Method, r.URL)
				}
				w.Header().Set("Content-Type", "application/json")
				if err := json.NewEncoder(w).Encode(record); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			c, err := spoke.New(spoke.Options{Config: &rest.Config{Host: server.URL}, Hub: "hub",
				Origin: spoke.Origin{Address: "https://now"}})
			if err != nil {
				t.Fatal(err)
			}
			work := &workv1.ManifestWork{}
			work.Namespace, work.Name, work.UID = "cluster1", "w", types.UID("u1")
			removal, err := c.Remove(t.Context(), work)
			var foreign *spoke.ForeignError
			if removal.Done != tt.done || errors.As(err, &foreign) == tt.done {
				t.Errorf("%+v, %v", removal, err)
			}
		})
	}
}
