// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
)

// TestStatusHash compares hashes with those of canonical texts that were written by hand.
func TestStatusHash(t *testing.T) {
	sum := func(text string) string {
		h := sha256.Sum256([]byte(text))
		return hex.EncodeToString(h[:])
	}
	const empty = `{"conditions":[],"resourceStatus":{"manifestConditions":[]}}`
	for _, tc := range []struct {
		name, reason string
		status       *workv1.ManifestWorkStatus
		want         string
	}{
		{"nil", "counts as empty", nil, sum(empty)},
		{"empty", "the lists are there", &workv1.ManifestWorkStatus{}, sum(empty)},
		{"empty lists", "the same as none", &workv1.ManifestWorkStatus{Conditions: []metav1.Condition{}}, sum(empty)},
		{"no conditions of a manifest", "the list is there",
			&workv1.ManifestWorkStatus{ResourceStatus: workv1.ManifestResourceStatus{Manifests: make([]workv1.ManifestCondition,
				1)}},
			sum(`{"conditions":[],"resourceStatus":{"manifestConditions":[{"conditions":[],"resourceMeta":{"group":"","kind":"","name":"","namespace":"","ordinal":0,"resource":"","version":""},"statusFeedback":{}}]}}`)},
		{"full", "members sorted", newStatus().Status,
			sum(`{"conditions":[{"lastTransitionTime":"2024-05-06T07:08:09Z","message":"Apply manifest work complete","observedGeneration":3,"reason":"AppliedManifestWorkComplete","status":"True","type":"Applied"}],"resourceStatus":{"manifestConditions":[{"conditions":[{"lastTransitionTime":"2024-05-06T07:08:09Z","message":"","reason":"AppliedManifestComplete","status":"True","type":"Applied"}],"resourceMeta":{"group":"","kind":"ConfigMap","name":"a","namespace":"default","ordinal":0,"resource":"configmaps","version":"v1"},"statusFeedback":{"values":[{"fieldValue":{"integer":1,"type":"Integer"},"name":"ready"}]}}]}}`)},
	} {
		if got, err := codec.StatusHash(tc.status); err != nil || got != tc.want {
			t.Errorf("%s: %s: got %s, %v; want %s", tc.name, tc.reason, got, err, tc.want)
		}
	}
	if want := "f3ab30035beb6021142907b37e5c2e1a6f4efb5fa19eef91095a5c6187b03f08"; sum(empty) != want {
		t.Errorf("got %s, want %s", sum(empty), want)
	}
	bad := newStatus().Status
	bad.Conditions[0].LastTransitionTime.Time = time.Date(12024, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err := codec.StatusHash(bad)
	wantError(t, err, codec.CodeData, "data", "it has no encoding")
}
