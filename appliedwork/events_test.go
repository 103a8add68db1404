// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// events are the AppliedWork, type, reason and text of recorded events.
type events []string

func (e *events) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	work := object.(*v1alpha1.AppliedWork)
	*e = append(*e, fmt.Sprintf("%s/%s: %s %s: %s", work.Name, work.Spec.WorkName, kind, reason, fmt.Sprintf(format, args...)))
}

// TestNameCollisionEvent: if two works need the same name, the existing AppliedWork gets the event,
// because there is no other.
func TestNameCollisionEvent(t *testing.T) {
	var got events
	tracker, _ := newTracker(t, newFakeAPI(), func(o *appliedwork.Options) { o.Events = &got })
	_, err := tracker.Ensure(t.Context(), "w", v1alpha1.AppliedWorkSpec{WorkName: "another", WorkNamespace: "n"})
	if !errors.Is(err, appliedwork.ErrNameCollision) {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0] != "w/w: Warning NameCollision: "+err.Error() {
		t.Errorf("%q", got)
	}
}
