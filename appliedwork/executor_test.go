// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/appliedwork"
)

var _ appliedwork.SubjectAccessReviews = authorizationclient.SubjectAccessReviewInterface(nil)

// reviews allows the access that a test allows.
type reviews struct {
	mu    sync.Mutex
	may   func(verb, name string) bool
	err   error
	asked []string // "verb resource name"
}

func (r *reviews) Create(
	ctx context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions,
) (*authorizationv1.SubjectAccessReview, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	about := review.Spec.ResourceAttributes
	r.asked = append(r.asked, strings.TrimSpace(about.Verb+" "+about.Resource+" "+about.Name))
	review = review.DeepCopy()
	if review.Status.Allowed = review.Spec.User == "deployer" && r.may(about.Verb, about.Name); !review.Status.Allowed {
		review.Status.Reason = "no rule fits"
	}
	return review, errors.Join(ctx.Err(), r.err)
}

// requests returns the reviews since the last call.
func (r *reviews) requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := r.asked
	r.asked = nil
	slices.Sort(asked)
	return asked
}

// executed returns a work that is applied with the rights of an executor.
func executed(t *testing.T, verbs ...string) (*scene, *reviews, appliedwork.ApplyOptions) {
	t.Helper()
	r := &reviews{may: func(verb, _ string) bool { return slices.Contains(verbs, verb) }}
	s := &scene{fakeAPI: newFakeAPI(), t: t, clock: testingclock.NewFakePassiveClock(time.Unix(1e9, 0))}
	s.tracker, s.work = newTracker(t, s.fakeAPI, func(o *appliedwork.Options) { o.Clock, o.Reviews = s.clock, r })
	s.applier = appliedwork.NewApplier(s.tracker)
	return s, r, appliedwork.ApplyOptions{Executor: &appliedwork.Executor{User: "deployer", Groups: []string{"deployers"}}}
}

func (s *scene) wantAsked(r *reviews, want ...string) {
	s.t.Helper()
	if got := r.requests(); !slices.Equal(got, want) {
		s.t.Errorf("asked %q, want %q", got, want)
	}
}

// TestForbiddenObjectIsNotWritten checks the error of an object that the executor may not
// write. The object is not written or recorded, and does not stop other objects.
func TestForbiddenObjectIsNotWritten(t *testing.T) {
	s, r, opts := executed(t, "create", "patch")
	role := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1",
		"kind": "ClusterRole", "metadata": map[string]any{"name": "a"}}}
	r.may = func(verb, name string) bool { return verb != "delete" || name == "a" }
	before := len(s.writes)
	changes, err := s.apply(opts, manifest("a", "1"), manifest("b", "1"), role)
	const want = `configmaps "b" is forbidden: user "deployer" cannot delete resource "configmaps" in API group "" in the namespace "shop", ` +
		`which is needed as the object goes with its owners: no rule fits`
	if !apierrors.IsForbidden(err) || !strings.HasSuffix(err.Error(), want) || changes.String() != "2 created, 1 failed" {
		t.Errorf("%v, %v", changes, err)
	}
	s.wantAsked(r, "create clusterroles", "create configmaps", "delete clusterroles", "delete clusterroles a",
		"delete configmaps", "delete configmaps a", "delete configmaps b",
		"escalate clusterroles a")
	if s.exists(shop+"b") || s.recorded("b") {
		t.Error("the denied object was written or recorded")
	}
	for _, w := range s.writes[before:] {
		if strings.HasSuffix(w, "/configmaps/b") {
			t.Error(w)
		}
	}

	// If the policy keeps the object, or an adopted object stays, no right to delete is needed.
	opts.Policies = appliedwork.Policies{Default: appliedwork.PolicyOrphan}
	if changes, err := s.apply(opts, manifest("b", "1")); err != nil || changes.String() != "1 created" {
		t.Errorf("%v, %v", changes, err)
	}
	s.put(shop+"c", manifest("c", "theirs"), "theirs")
	opts.Policies, opts.Adoption = appliedwork.Policies{}, appliedwork.AdoptionAlways
	if changes, err := s.apply(opts, manifest("c", "1")); err != nil || changes.String() != "1 adopted" {
		t.Errorf("%v, %v", changes, err)
	}
	// With the owner reference, the right to delete is needed.
	if changes, err := s.apply(opts, manifest("b", "1")); !apierrors.IsForbidden(err) || changes.String() != "1 failed" {
		t.Errorf("%v, %v", changes, err)
	}
	if len((&unstructured.Unstructured{Object: s.objects[shop+"b"]}).GetOwnerReferences()) > 0 {
		t.Error("it has an owner")
	}
}

// TestExecutorNeedsVerbs checks the verbs that each kind of write needs.
func TestExecutorNeedsVerbs(t *testing.T) {
	key, err := appliedwork.Identify(manifest("a", "1"))
	if err != nil {
		t.Fatal(err)
	}
	for strategy, want := range map[appliedwork.Strategy]string{appliedwork.StrategyServerSideApply: "patch",
		appliedwork.StrategyUpdate: "update"} {
		s, r, opts := executed(t, "create", "delete")
		opts.ByKey = map[appliedwork.Key]appliedwork.ObjectOptions{key: {Strategy: strategy}}
		if _, err := s.apply(opts, manifest("a", "1")); err != nil {
			t.Fatal(err)
		}
		s.wantAsked(r, "create configmaps", "delete configmaps")
		if _, err := s.apply(opts, manifest("a", "1")); err != nil {
			t.Fatal(err)
		}
		s.wantAsked(r) // nothing is written
		writes := len(s.writes)
		if _, err := s.apply(opts, manifest("a", "2")); !apierrors.IsForbidden(err) ||
			!strings.Contains(err.Error(), `user "deployer" cannot `+want) || !s.recorded("a") {
			t.Error(err)
		}
		s.wantAsked(r, want+" configmaps", want+" configmaps a")
		if written := s.writes[writes:]; slices.ContainsFunc(written,
			func(w string) bool { return strings.Contains(w, shop) }) {
			t.Error(written)
		}
	}
}

// TestReviewIsValidForTenSeconds checks that an answer is valid for 10 seconds, and only for
// its executor. A failed request is not an answer.
func TestReviewIsValidForTenSeconds(t *testing.T) {
	s, r, opts := executed(t, "create", "delete")
	var all []*unstructured.Unstructured
	for i := range 40 {
		all = append(all, manifest(fmt.Sprint("c", i), "1"))
	}
	if _, err := s.apply(opts, all...); err != nil {
		t.Fatal(err)
	}
	s.wantAsked(r, "create configmaps", "delete configmaps")
	r.may = func(string, string) bool { return false } // the cached answer hides this
	s.clock.SetTime(s.clock.Now().Add(10 * time.Second))
	if _, err := s.apply(opts, manifest("kept", "1")); err != nil {
		t.Error(err)
	}
	opts.Executor = &appliedwork.Executor{User: "deployer"}
	if _, err := s.apply(opts, manifest("groups", "1")); !apierrors.IsForbidden(err) {
		t.Errorf("with other groups: %v", err)
	}
	opts.Executor = &appliedwork.Executor{User: "deployer", Groups: []string{"deployers"}}
	s.clock.SetTime(s.clock.Now().Add(time.Nanosecond))
	if _, err := s.apply(opts, manifest("revoked", "1")); !apierrors.IsForbidden(err) {
		t.Errorf("a revoked right: %v", err)
	}
	r.may = func(string, string) bool { return true }
	s.clock.SetTime(s.clock.Now().Add(11 * time.Second))
	for _, fault := range []error{errors.New("down"),
		apierrors.NewForbidden(schema.GroupResource{Resource: "subjectaccessreviews"}, "",
			errors.New("the agent may not ask"))} {
		r.err = fault
		changes, err := s.apply(opts, manifest("failed", "1"), all[0])
		if err == nil || apierrors.IsForbidden(err) || !strings.Contains(err.Error(), fault.Error()) ||
			changes.String() != "1 failed, 1 unchanged" && changes.String() != "1 unchanged, 1 failed" {
			t.Errorf("%v, %v", changes, err)
		}
		if s.exists(shop+"failed") || s.recorded("failed") {
			t.Error("the object was written or recorded")
		}
	}
	r.err = nil
	if _, err := s.apply(opts, manifest("failed", "1")); err != nil {
		t.Error(err)
	}
}

// TestSlowReviewDelaysOnlyItsCallers checks that a request that hangs delays only the
// callers that wait for its answer.
func TestSlowReviewDelaysOnlyItsCallers(t *testing.T) {
	s, r, opts := executed(t, "create", "delete")
	ctx, cancel := context.WithCancel(t.Context())
	slow := &slowReviews{reviews: r, began: make(chan struct{})}
	tracker, _ := newTracker(t, s.fakeAPI, func(o *appliedwork.Options) { o.Reviews = slow })
	applier, done := appliedwork.NewApplier(tracker), make(chan error)
	apply := func(ctx context.Context, user string) error {
		opts := opts
		opts.Executor = &appliedwork.Executor{User: user}
		_, err := applier.Apply(ctx, s.work, []*unstructured.Unstructured{manifest("a", "1")}, opts)
		return err
	}
	go func() { done <- apply(ctx, "slow") }()
	<-slow.began
	if err := apply(t.Context(), "deployer"); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// slowReviews never answers for the user "slow".
type slowReviews struct {
	*reviews
	began chan struct{}
}

func (r *slowReviews) Create(
	ctx context.Context, review *authorizationv1.SubjectAccessReview, o metav1.CreateOptions,
) (*authorizationv1.SubjectAccessReview, error) {
	if review.Spec.User == "slow" {
		close(r.began)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return r.reviews.Create(ctx, review, o)
}

// TestInvalidExecutorIsRefused checks that an executor needs a user, and Options.Reviews.
func TestInvalidExecutorIsRefused(t *testing.T) {
	s, _, opts := executed(t)
	opts.Executor = &appliedwork.Executor{}
	if _, err := s.apply(opts, manifest("a", "1")); !errors.Is(err, appliedwork.ErrInvalidInput) ||
		!strings.Contains(err.Error(), "User") {
		t.Error(err)
	}
	plain := newScene(t)
	opts.Executor = &appliedwork.Executor{User: "deployer"}
	if _, err := plain.apply(opts, manifest("a", "1")); !errors.Is(err, appliedwork.ErrInvalidInput) ||
		!strings.Contains(err.Error(), "Options.Reviews") {
		t.Error(err)
	}
}

// TestCancelledReviewIsRepeated checks that a caller that cancels stops no other caller.
func TestCancelledReviewIsRepeated(t *testing.T) {
	s, _, opts := executed(t, "create", "delete")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.applier.Apply(ended, s.work, []*unstructured.Unstructured{manifest("a", "1")}, opts); err == nil {
		t.Error("it was applied")
	}
	if _, err := s.apply(opts, manifest("a", "1")); err != nil {
		t.Error(err)
	}
}
