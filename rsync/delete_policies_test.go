// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// TestDeletePolicies: delete policies delete hooks in events that succeed, and in events with a
// hook that fails.
func TestDeletePolicies(t *testing.T) {
	for name, tt := range map[string]struct {
		text       string
		fails      string // the hook that fails, or empty
		verbs      string
		shows      string
		terminates bool // check the Terminate instead of the Instantiate
	}{
		"no policy":           {text: "pre-install!p=1 x=1", verbs: "Apply p, Apply x", shows: "p=1 x=1"},
		"no policy, it fails": {text: "pre-install!p=1 x=1", fails: "p", verbs: "Apply p", shows: "p=1"},
		"before creation": {text: "pre-install+before-hook-creation!p=1 x=1",
			verbs: "Delete p, Apply p, Apply x", shows: "p=1 x=1"},
		"succeeded": {text: "pre-install+hook-succeeded!p=1 x=1", verbs: "Apply p, Delete p, Apply x",
			shows: "x=1"},
		"succeeded, it fails": {text: "pre-install+hook-succeeded!p=1 x=1", fails: "p", verbs: "Apply p",
			shows: "p=1"},
		"failed": {text: "pre-install+hook-failed!p=1 x=1", verbs: "Apply p, Apply x",
			shows: "p=1 x=1"},
		"failed, it fails": {text: "pre-install+hook-failed!p=1 x=1", fails: "p", verbs: "Apply p, Delete p",
			shows: ""},
		"a later weight uses it": {text: "pre-install+hook-succeeded!-1/p=1 pre-install+hook-succeeded!q=1 x=1",
			verbs: "Apply p, Apply q, Delete q, Delete p, Apply x", shows: "x=1"},
		"a later weight fails": {text: "pre-install+hook-succeeded!-1/p=1 pre-install!q=1 x=1", fails: "q",
			verbs: "Apply p, Apply q, Delete p", shows: "q=1"},
		"one of a weight fails": {
			text: "pre-install+hook-succeeded!p=1 pre-install+hook-failed!q=1 pre-install+hook-failed!r=1", fails: "q",
			verbs: "Apply p, Apply q, Apply r, Delete q, Delete p", shows: "r=1",
		},
		"all policies": {text: "post-install+before-hook-creation+hook-succeeded+hook-failed!p=1 x=1",
			verbs: "Apply x, Delete p, Apply p, Delete p", shows: "x=1"},
		"at the end": {text: "pre-delete+before-hook-creation!p=1 post-delete+hook-succeeded!q=1 post-delete!r=1 x=1",
			terminates: true,
			verbs:      "Delete p, Apply p, Delete x, Apply q, Apply r, Delete q, Delete r, Delete p"},
		"at the end, it fails": {text: "pre-delete+hook-failed!p=1 x=1", fails: "p", terminates: true,
			verbs: "Apply p, Delete p", shows: "x=1"},
		"of a hook that is gone": {text: "pre-install+hook-succeeded!p=1 x=1", terminates: true,
			verbs: "Delete x, Delete p"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil, rsync.Options{})
				s.create("a", "web@c1 "+tt.text)
				c := s.clusters.Cluster("edge", "c1")
				if tt.terminates {
					s.done(s.engine.Instantiate(t.Context(), "a"))
					c.Forget()
				}
				c.SetUnready(func(o appcontext.Object) bool { return tt.fails == o.Name })
				event := s.engine.Instantiate
				if tt.terminates {
					event = s.engine.Terminate
				}
				ref, err := event(t.Context(), "a")
				if tt.fails == "" {
					s.done(ref, err)
				} else {
					time.Sleep(time.Minute)
					c.SetReady(object("Job", tt.fails), false, true)
					failure := s.failure(rsync.ReasonHookFailed, ref, err)
					if !strings.Contains(failure.Error(), "Job default/"+tt.fails) {
						t.Errorf("the failure is %v", failure)
					}
				}
				if got := s.verbs("c1"); got != tt.verbs {
					t.Errorf("it did %s, want %s", got, tt.verbs)
				}
				s.shows("c1", tt.shows)
			})
		})
	}
}

// TestHookOfContextThatWasReplaced: a replaced context that is instantiated again holds its objects
// like any other context.
func TestHookOfContextThatWasReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("v1", "web@c1 pre-install!p=1")
		s.create("v2", "web@c1 x=1 pre-install+hook-succeeded!p=2")
		s.done(s.engine.Instantiate(t.Context(), "v1"))
		s.done(s.engine.Update(t.Context(), "v1", "v2"))
		time.Sleep(time.Minute) // until v1 has deleted its objects
		s.done(s.engine.Instantiate(t.Context(), "v1"))
		s.done(s.engine.Instantiate(t.Context(), "v2"))
		s.shows("c1", "p=1 x=1")
	})
}

// TestBeforeHookCreationWaits: a hook is created only after the object of an earlier run is
// deleted. A changed hook is a new object.
func TestBeforeHookCreationWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 pre-install+before-hook-creation!p=1 x=1")
		s.create("b", "web@c1 pre-install+before-hook-creation!p=2 x=1")
		s.create("c", "web@c1 pre-install+before-hook-creation!p=2 x=2")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		c := s.clusters.Cluster("edge", "c1")
		c.Forget()
		c.SetFinalizer(true)
		ref := s.ref(s.engine.Update(t.Context(), "a", "b"))
		time.Sleep(time.Minute)
		if got := s.verbs("c1"); got != "Delete p" {
			t.Errorf("while it is not gone: %s", got)
		}
		c.Finalize()
		c.SetFinalizer(false)
		s.done(ref, nil)
		if got := s.verbs("c1"); got != "Delete p, Apply p" {
			t.Errorf("it did %s", got)
		}
		s.shows("c1", "p=2 x=1")
		c.Forget()
		s.done(s.engine.Update(t.Context(), "b", "c"))
		if got := s.verbs("c1"); got != "Apply x" {
			t.Errorf("with a hook that has not changed: %s", got)
		}
	})
}

// TestCleanupAfterFailureIsAwaited: an app fails after its failed hook is deleted. A Terminate ends
// this wait, and the reason is still the failed hook.
func TestCleanupAfterFailureIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 pre-install+hook-failed!p=1 x=1")
		c := s.clusters.Cluster("edge", "c1")
		c.SetUnready(always)
		c.SetFinalizer(true)
		ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(time.Minute)
		c.SetReady(object("Job", "p"), false, true)
		time.Sleep(time.Minute)
		s.state("a", rsync.Instantiating)
		terminate := s.ref(s.engine.Terminate(t.Context(), "a"))
		failure := s.failure(rsync.ReasonHookFailed, ref, nil)
		if !strings.Contains(failure.Error(), "it has failed") {
			t.Errorf("the failure is %v", failure)
		}
		time.Sleep(time.Minute)
		c.Finalize()
		s.done(terminate, nil)
		s.shows("c1", "")
	})
}

// TestPoliciesLeaveObjectsOfOthers: a delete policy deletes no object that another context holds.
// With hook-succeeded, the object is applied again for that context.
func TestPoliciesLeaveObjectsOfOthers(t *testing.T) {
	for policy, want := range map[string]string{
		"before-hook-creation": "Apply p", "hook-succeeded": "Apply p, Apply p",
	} {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil, rsync.Options{})
				s.create("other", "jobs@c1 pre-install!p=1")
				s.create("a", "web@c1 pre-install+"+policy+"!p=2")
				s.done(s.engine.Instantiate(t.Context(), "other"))
				c := s.clusters.Cluster("edge", "c1")
				c.Forget()
				status := s.done(s.engine.Instantiate(t.Context(), "a"))
				web := status.Cluster("web", appcontext.ClusterID{Provider: "edge", Name: "c1"})
				if want := "left for other app contexts: Job default/p (app jobs of app context other)"; web.Message != want {
					t.Errorf("the status is %q, want %q", web.Message, want)
				}
				if got := s.verbs("c1"); strings.Contains(got, "Delete") || !strings.HasSuffix(got, want) {
					t.Errorf("it did %s, want %s", got, want)
				}
			})
		})
	}
}

// TestLatePoliciesLeaveObjectsOfOthers: a delete policy deletes no object that another context has
// begun to hold after the event began. If the other context begins during the delete call, the
// object is created again.
func TestLatePoliciesLeaveObjectsOfOthers(t *testing.T) {
	for policy, want := range map[string]string{"before-hook-creation": "p=2", "hook-succeeded": "p=1"} {
		for _, during := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, during the call %v", policy, during), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t, nil, rsync.Options{})
					s.create("a", "web@c1 pre-install!slow=1 x=1 post-install+"+policy+"!p=2")
					s.create("other", "jobs@c1 pre-install!p=1")
					c := s.clusters.Cluster("edge", "c1")
					c.SetUnready(func(o appcontext.Object) bool { return o.Name == "slow" })
					ref := s.ref(s.engine.Instantiate(s.t.Context(), "a"))
					time.Sleep(time.Minute)
					if during {
						c.Intercept(func(v fake.Verb, b connector.Batch) error {
							if v == fake.VerbDelete && b.Resources[0].Name == "p" {
								s.done(s.engine.Instantiate(s.t.Context(), "other"))
							}
							return nil
						})
					} else {
						s.done(s.engine.Instantiate(s.t.Context(), "other"))
						c.Forget()
					}
					c.SetReady(object("Job", "slow"), true, false)
					s.done(ref, nil)
					s.state("other", rsync.Instantiated)
					if got := s.verbs("c1"); !during && strings.Contains(got, "Delete") {
						t.Errorf("it did %s", got)
					}
					s.shows("c1", want+" slow=1 x=1")
				})
			})
		}
	}
}

// TestHookThatIsDeletedIsNotHeld: a hook with hook-succeeded does not prevent another context from
// deleting its own object with the same name.
func TestHookThatIsDeletedIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 pre-install+hook-succeeded!p=1 x=1")
		s.create("b", "web@c1 pre-install!p=2 y=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.done(s.engine.Instantiate(t.Context(), "b"))
		s.shows("c1", "p=2 x=1 y=1")
		s.done(s.engine.Terminate(t.Context(), "b"))
		s.shows("c1", "x=1")
	})
}
