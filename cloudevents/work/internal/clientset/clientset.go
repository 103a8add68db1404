// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package clientset emulates an API server for ManifestWorks: the generated clientset in front of a
// [Backend], a source or an agent. It has the verbs, patches, apply, admission and errors of the
// API server; a backend stores and sends.
package clientset

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

var (
	// Resource is the resource manifestworks.
	Resource = schema.GroupResource{Group: workv1.GroupName, Resource: "manifestworks"}
	// StatusResource is the status subresource of Resource.
	StatusResource = schema.GroupResource{Group: workv1.GroupName, Resource: "manifestworks/status"}
	// Kind is the kind of Resource.
	Kind = schema.GroupKind{Group: workv1.GroupName, Kind: "ManifestWork"}
)

// clientset serves ManifestWorks from a backend, and returns errors for all other resources: they
// are not supported.
type clientset struct {
	workclientset.Interface // the generated clientset of a server that refuses all
	v1                      workV1
}

type workV1 struct {
	worktyped.WorkV1Interface
	backend Backend
}

// New returns a clientset in front of a backend.
func New(b Backend) workclientset.Interface {
	// The host is never contacted: the transport answers.
	refusing := workclientset.NewForConfigOrDie(&rest.Config{
		Host:      "http://manifestworks-over-cloudevents.invalid",
		Transport: refuse{},
		QPS:       -1, // answers are local: no limit is needed
	})
	return &clientset{Interface: refusing, v1: workV1{WorkV1Interface: refusing.WorkV1(), backend: b}}
}

// WorkV1 returns the client for the group version of ManifestWorks.
func (c *clientset) WorkV1() worktyped.WorkV1Interface { return &c.v1 }

// ManifestWorks returns the client for the works of a namespace; empty stands for all namespaces,
// if the verb allows it.
func (c *workV1) ManifestWorks(namespace string) worktyped.ManifestWorkInterface {
	return &works{backend: c.backend, namespace: namespace}
}

// NotSupported returns the API server's error for a verb, with the remedy.
func NotSupported(resource schema.GroupResource, verb, remedy string) error {
	err := apierrors.NewMethodNotSupported(resource, verb)
	err.ErrStatus.Message += ": " + remedy
	return err
}

// refuse is a server that supports no resource. The generated clients convert its answer to a
// StatusError with reason MethodNotAllowed.
type refuse struct{}

func (refuse) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close() // a RoundTripper must close it; its error does not matter
	}
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Reason:   metav1.StatusReasonMethodNotAllowed,
		Code:     http.StatusMethodNotAllowed,
		Message:  r.Method + " " + r.URL.Path + " is not supported over CloudEvents: only ManifestWorks are",
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode:    http.StatusMethodNotAllowed,
		Status:        http.StatusText(http.StatusMethodNotAllowed),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{"Content-Type": []string{"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}, nil
}
