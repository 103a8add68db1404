// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubefields_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/internal/kubefields"
)

func TestRefused(t *testing.T) {
	invalid := func(causes ...metav1.StatusCause) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
			Details: &metav1.StatusDetails{Causes: causes},
		}}
	}
	cause := func(kind metav1.CauseType, field string) metav1.StatusCause {
		return metav1.StatusCause{Type: kind, Field: field, Message: "some text"}
	}
	for _, tt := range []struct {
		reason string
		err    error
		want   []string
	}{
		{"no error", nil, nil},
		{"another error", errors.New("invalid"), nil},
		{"no causes", invalid(), nil},
		{"a field", invalid(cause(metav1.CauseTypeFieldValueInvalid, "spec.template")), []string{"spec.template"}},
		{"a wrapped error", fmt.Errorf("apply: %w", invalid(cause(metav1.CauseTypeForbidden, "data"))), []string{"data"}},
		{"a field counts once", invalid(cause(metav1.CauseTypeForbidden, "b"), cause(metav1.CauseTypeFieldValueInvalid, "a"),
			cause(metav1.CauseTypeForbidden, "b")), []string{"b", "a"}},
		{"a policy names no field", invalid(cause(metav1.CauseTypeForbidden, "data"), cause(metav1.CauseTypeForbidden, "")),
			nil},
		{"a missing value is no change",
			invalid(cause(metav1.CauseTypeForbidden, "data"), cause(metav1.CauseTypeFieldValueRequired, "spec")), nil},
		{"another reason", apierrors.NewConflict(metav1.SchemeGroupVersion.WithResource("x").GroupResource(), "x", nil), nil},
	} {
		if d := cmp.Diff(tt.want, kubefields.Refused(tt.err)); d != "" {
			t.Errorf("%s: %s", tt.reason, d)
		}
	}
}
