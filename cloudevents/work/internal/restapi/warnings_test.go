// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/warning"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/restapi"
)

// TestLateWarnings: a handler answers when its context has ended, while the write that it began
// continues and adds warnings. The race detector finds a shared header.
func TestLateWarnings(t *testing.T) {
	done := make(chan struct{})
	handler := restapi.WithWarnings(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		warning.AddWarning(r.Context(), "", "early")
		go func() {
			defer close(done)
			warning.AddWarning(r.Context(), "", "late")
		}()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusGatewayTimeout)
		<-done
		w.Header().Set("X-Late", "1")
	}))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "PATCH", "/", nil))
	got := w.Result().Header["Warning"]
	if len(got) > 0 {
		got = got[:1] // the late one may be in time
	}
	if diff := cmp.Diff([]string{`299 - "early"`}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
