// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/appliedwork/internal/discovery"
)

var errNotServed = errors.New("not served")

// empty is an API server without any kind.
type empty struct{}

func (empty) ServerGroupsWithContext(context.Context) (*metav1.APIGroupList, error) {
	return &metav1.APIGroupList{}, nil
}

func (empty) ServerResourcesForGroupVersionWithContext(
	_ context.Context, groupVersion string,
) (*metav1.APIResourceList, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{}, groupVersion)
}

// TestUnservedVersionsAreForgotten checks that kinds that do not exist leave nothing in memory.
func TestUnservedVersionsAreForgotten(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	cache := discovery.New(empty{}, clock, func(schema.GroupKind) error { return errNotServed })
	for i := range 50 {
		clock.SetTime(clock.Now().Add(time.Minute))
		kind := schema.GroupKind{Group: fmt.Sprintf("g%d.example.com", i), Kind: "Part"}
		if _, err := cache.Resolve(t.Context(), kind, "v1"); !errors.Is(err, errNotServed) {
			t.Fatal(err)
		}
	}
	if n := cache.Versions(); n > 5 {
		t.Errorf("%d answers about versions are cached", n)
	}
}
