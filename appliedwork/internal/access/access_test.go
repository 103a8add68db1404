// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/appliedwork/internal/access"
)

// allowed is an API server that allows everything.
type allowed struct{}

func (allowed) Create(
	_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions,
) (*authorizationv1.SubjectAccessReview, error) {
	review.Status.Allowed = true
	return review, nil
}

// TestAnswersUseBoundedMemory asks about more names than there is room for, once before any answer
// expires and once while answers expire.
func TestAnswersUseBoundedMemory(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1e9, 0))
	reviews := access.New(allowed{}, clock)
	for _, delay := range []time.Duration{0, time.Second} {
		for i := range 5000 {
			clock.SetTime(clock.Now().Add(delay))
			about := authorizationv1.ResourceAttributes{Verb: "delete", Resource: "configmaps", Name: fmt.Sprint("n", i)}
			answer, err := reviews.Ask(t.Context(), "deployer", nil, about)
			if err != nil || !answer.Allowed {
				t.Fatalf("%+v, %v", answer, err)
			}
		}
		if n := reviews.Answers(); n > 4096 {
			t.Errorf("%d answers are cached", n)
		}
	}
}
