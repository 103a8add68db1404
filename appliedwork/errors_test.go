// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/appliedwork"
)

func TestIsTypeNotServed(t *testing.T) {
	resource := schema.GroupResource{Group: "example.com", Resource: "tenants"}
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"nil", nil, false},
		{"object", apierrors.NewNotFound(resource, "acme"), false},
		{"path", apierrors.NewGenericServerResponse(404, "GET", resource, "acme", "404 page not found", 0, true), true},
		{"bare 404", &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: 404}}, true},
		{"mapper, kind", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Tenant"}}, true},
		{"mapper, resource", fmt.Errorf("x: %w", &meta.NoResourceMatchError{}), true},
		{"ours", fmt.Errorf("x: %w", &appliedwork.TypeNotServedError{}), true},
		{"forbidden", apierrors.NewForbidden(resource, "acme", nil), false},
		{"unavailable", apierrors.NewServiceUnavailable("aggregated"), false},
		{"reset", errors.New("connection reset by peer"), false},
	}
	for _, test := range tests {
		if got := appliedwork.IsTypeNotServed(test.err); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
