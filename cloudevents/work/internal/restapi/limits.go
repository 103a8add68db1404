// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
)

// maxDuration is the API server's limit of the duration of a request that is no watch.
const maxDuration = time.Minute

func longRunning(_ *http.Request, info *request.RequestInfo) bool { return info.Verb == "watch" }

// whileRunning refuses all requests after the source or the agent has stopped. Before its start,
// the clientset answers.
func whileRunning(c workclientset.Interface, handler http.Handler) http.Handler {
	v, _ := clientset.VerbsOf(c, "")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !v.Stopped() {
			handler.ServeHTTP(w, r)
			return
		}
		WriteUnavailable(w, r, "the source or agent of the works has stopped")
	})
}

// WriteUnavailable answers a request with ServiceUnavailable, and asks the client to try again.
func WriteUnavailable(w http.ResponseWriter, r *http.Request, reason string) {
	err := apierrors.NewServiceUnavailable(reason)
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	writeError(w, r, err)
}

// asStatus converts the error of a context, which has no status, to the Timeout that an API server
// returns after a deadline.
func asStatus(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return err
	}
	return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
}

// notFound answers a request that no handler serves. For the group of works it has the error that
// client-go makes of the text of an API server, otherwise that text.
func notFound(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) {
	const text = "404 page not found"
	if info == nil || r.URL.Path != groupPath && !strings.HasPrefix(r.URL.Path, groupPath+"/") {
		http.Error(w, text, http.StatusNotFound)
		return
	}
	resource := schema.GroupResource{Group: workv1.GroupName, Resource: info.Resource}
	writeError(w, r, apierrors.NewGenericServerResponse(
		http.StatusNotFound, strings.ToLower(r.Method), resource, info.Name, text, 0, true))
}

// inPath returns the API server's error for a name or namespace that cannot be part of a path.
func inPath(what, value string) error {
	if wrong := content.IsPathSegmentName(value); len(wrong) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("%s parameter invalid: %q: %s", what, value, strings.Join(wrong, ";")))
	}
	return nil
}
