// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// TestOutageOfUnchangedWorks checks that works that send no requests report that the API server does not
// answer, and are served again when it answers.
func TestOutageOfUnchangedWorks(t *testing.T) {
	run(t, nil, func(b *bench) {
		b.create("w", nil)
		b.settle()
		for range 3 {
			b.checks(errors.New("no answer"))
			b.settle()
		}
		b.reports("w", workv1.WorkAvailable, metav1.ConditionUnknown, "The API server of the cluster does not answer: no answer")
		if n := b.count(b.applied, "w"); n != 1 {
			t.Errorf("%d applies during the outage, want 1 before it", n)
		}
		for range 3 {
			b.checks(nil)
			b.settle()
		}
		b.reports("w", workv1.WorkAvailable, metav1.ConditionTrue, "")
		if n := b.count(b.applied, "w"); n != 2 {
			t.Errorf("%d applies after the outage, want 2", n)
		}
	})
}
