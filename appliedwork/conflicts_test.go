// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
)

// TestObjectTooLargeForEtcdIsRefused checks that the internal error for an object that is too
// large for etcd is a certain refusal, which leaves no entry. Other internal errors have an unknown
// outcome.
func TestObjectTooLargeForEtcdIsRefused(t *testing.T) {
	for _, test := range []struct {
		message string
		entries int
	}{
		{"etcdserver: request is too large", 0},
		{"rpc error: code = ResourceExhausted desc = trying to send message larger than max (2600653 vs. 2097152)", 0},
		{"etcdserver: request timed out", 1},
	} {
		api := newFakeAPI()
		tracker, work := newTracker(t, api, nil)
		api.refuse = func(request *http.Request, _ []byte) *metav1.Status {
			if request.Method != http.MethodPost {
				return nil
			}
			return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: test.message}
		}
		objects := []*unstructured.Unstructured{manifest("a", "1")}
		_, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, objects, appliedwork.ApplyOptions{})
		entries, listErr := tracker.Entries(t.Context(), work)
		if err == nil || listErr != nil || len(entries) != test.entries {
			t.Errorf("%v: %v, %v, want %d entries", err, entries, listErr, test.entries)
		}
	}
}
