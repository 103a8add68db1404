// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/kube"
)

// slowly is an interpreter that answers after 1.5 s. It reports the health of the status that it
// was given.
func slowly(_ context.Context, u *unstructured.Unstructured) (bool, error) {
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	time.Sleep(1500 * time.Millisecond)
	return phase != "broken", nil
}

// observed connects to an API server with one Widget. Its phase is also its resourceVersion. get
// reads the state. Each element of reports requests another read.
func observed(t *testing.T, phase func() string) (get func() connector.State, reports <-chan struct{}) {
	a := start(t, false)
	a.respond(serving(func(string, string) string {
		return fmt.Sprintf(`"metadata":{"generation":1,"resourceVersion":%[1]q},"status":{"phase":%[1]q}`, phase())
	}))
	c := open(t, kube.Cluster{Config: a.config()}, kube.Options{Interpreter: health(slowly)})
	told := make(chan struct{}, 100)
	go func() {
		_ = c.(connector.StatusWatcher).WatchStatus(t.Context(), func() { told <- struct{}{} })
	}()
	return func() connector.State {
		t.Helper()
		return stateOf(t, c, "w")
	}, told
}

func stateOf(t *testing.T, c connector.Connector, name string) connector.State {
	t.Helper()
	widget := resourceOf("example.com/v1", "Widget", name)
	states, err := c.Get(t.Context(), connector.Batch{Resources: []appcontext.Resource{widget}})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

// TestLateAnswerOfEarlierStatus: an object breaks while an interpreter answers about its earlier
// status. The object is not ready, and the interpreter is called again.
func TestLateAnswerOfEarlierStatus(t *testing.T) {
	var phase atomic.Value
	phase.Store("fine")
	get, reports := observed(t, func() string { return phase.Load().(string) })
	get()
	phase.Store("broken")
	for end := time.After(20 * time.Second); ; {
		s := get()
		if s.Ready {
			t.Fatalf("the object is broken, and its state is %+v", s)
		}
		if s.Message == "the interpreter reports that it is not healthy" {
			return
		}
		select {
		case <-reports:
		case <-end:
			t.Fatalf("no report after the state %+v", s)
		}
	}
}

// TestLateAnswersOfChangingStatus: an object with a status that changes faster than the interpreter
// answers still becomes ready.
func TestLateAnswersOfChangingStatus(t *testing.T) {
	var n atomic.Int64
	get, reports := observed(t, func() string { return fmt.Sprint("fine", n.Add(1)) })
	for end := time.After(20 * time.Second); !get().Ready; {
		select {
		case <-reports:
		case <-end:
			t.Fatalf("it is %+v", get())
		}
	}
}

// TestInterpreterIgnoresContext: calls that do not return delay neither Close nor the answers about
// other objects of their kind. The interpreter is not called again for their objects.
func TestInterpreterIgnoresContext(t *testing.T) {
	a := start(t, false)
	a.respond(serving(func(string, string) string { return `"metadata":{"generation":1}` }))
	end := make(chan struct{})
	var hanging atomic.Int64
	c := open(t, kube.Cluster{Config: a.config()}, kube.Options{
		Timeout: 500 * time.Millisecond, Concurrency: 2,
		Interpreter: health(func(_ context.Context, u *unstructured.Unstructured) (bool, error) {
			if u.GetName() != "good" {
				hanging.Add(1)
				<-end
			}
			return true, nil
		}),
	})
	defer close(end)
	const late = "its health is unknown: the interpreter did not answer within 500ms"
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		one, two, good := stateOf(t, c, "one"), stateOf(t, c, "two"), stateOf(t, c, "good")
		if one.Message == late && two.Message == late && good.Ready {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("one: %+v\ntwo: %+v\ngood: %+v", one, two, good)
		}
	}
	time.Sleep(6 * time.Second) // then objects with errors are interpreted again
	stateOf(t, c, "one")
	if n := hanging.Load(); n != 2 {
		t.Errorf("%d calls hang, want one about each object", n)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("Close waits for them")
	}
}
