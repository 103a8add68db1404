// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubeaccess_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/grpc/kubeaccess"
)

const secret = "t0ps3cret"

// api is an API server without a socket: a transport of clients that answers itself.
type api struct {
	t     *testing.T
	delay time.Duration // of each answer

	mu     sync.Mutex
	asked  []string // as text describes them
	denied bool
	fail   func() (int, metav1.Status) // answers instead, if it is set
	err    error                       // is returned instead, if it is set
	tokens map[string]authenticationv1.TokenReviewStatus
}

func (a *api) config() *rest.Config {
	return &rest.Config{Host: "https://internal.example.com:6443", BearerToken: "hub-" + secret, Transport: a}
}

func newReviews(t *testing.T, a *api, o kubeaccess.Options) *kubeaccess.Reviews {
	t.Helper()
	a.t = t
	r, err := kubeaccess.New(a.config(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// RoundTrip answers after the delay.
func (a *api) RoundTrip(request *http.Request) (*http.Response, error) {
	select {
	case <-time.After(a.delay):
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	body, err := io.ReadAll(request.Body)
	if err = errors.Join(err, a.err); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	var answer any
	switch resource := path.Base(request.URL.Path); {
	case a.fail != nil:
		code, s := a.fail()
		s.TypeMeta, s.Code = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, int32(code)
		w.WriteHeader(code)
		answer = &s
		a.asked = append(a.asked, resource)
	case resource == "tokenreviews":
		answer = a.reviewToken(body)
	default:
		answer = a.review(body)
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		a.t.Error(err)
	}
	return w.Result(), nil
}

func (a *api) reviewToken(body []byte) any {
	var review authenticationv1.TokenReview
	a.decode(body, &review)
	a.asked = append(a.asked, strings.Join(append([]string{"token"}, review.Spec.Audiences...), " "))
	s, ok := a.tokens[review.Spec.Token]
	if !ok {
		s.Error = "[invalid bearer token, no such token: " + review.Spec.Token + "]"
	}
	review.Status, review.Spec.Token = s, ""
	return &review
}

func (a *api) review(body []byte) any {
	var review authorizationv1.SubjectAccessReview
	a.decode(body, &review)
	r := review.Spec.ResourceAttributes
	resource := strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/") + "." + r.Group
	text := []string{review.Spec.User, r.Verb, resource, r.Namespace, r.Name}
	a.asked = append(a.asked, strings.Join(slices.DeleteFunc(text, func(s string) bool { return s == "" }), " "))
	review.Status.Allowed = !a.denied
	return &review
}

func (a *api) decode(body []byte, review any) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(review); err != nil {
		a.t.Errorf("%v: %s", err, body)
	}
}

// questions returns the new requests.
func (a *api) questions() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.asked
	a.asked = nil
	return asked
}

func (a *api) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// status is an access of the agent of a cluster.
func statusOf(cluster string) grpc.Access {
	return grpc.Access{
		Identity: grpc.Identity{User: "agent", Groups: []string{"agents"}}, Write: true, Role: grpc.RoleAgent,
		Source: "hub", Cluster: cluster, Topic: "/sources/hub/clusters/" + cluster + "/manifestsstatus",
	}
}
