// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spokes

import (
	"testing"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// TestState checks that health only makes objects unready, and that the configuration of an object has
// the values of the connector first, then those of the health.
func TestState(t *testing.T) {
	s, err := Open(Options{Transport: memory.New().Transport(), SourceID: "hub", Store: work.NewMemoryStore(),
		Interpreter: native.New(), Changed: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	deployment := appcontext.Object{Group: "apps", Kind: "Deployment", Namespace: "x", Name: "a"}
	state, change := connector.State{Object: deployment, Message: "it does not exist"}, s.state("c1")
	if change(&state, workv1.ManifestCondition{}); state.Ready || state.Message != "it does not exist" {
		t.Errorf("an object that is not ready: %+v", state)
	}
	state = connector.State{Object: deployment, Ready: true}
	if change(&state, workv1.ManifestCondition{}); state.Ready || state.Message == "" {
		t.Errorf("an object without a known health: %+v", state)
	}
	paths := configOf(deployment).FeedbackRules[0].JsonPaths
	if len(paths) < 3 || paths[0].Name != "UpdatedReplicas" || paths[1].Name != "AvailableReplicas" ||
		paths[2].Name != "status" {
		t.Errorf("%+v", paths)
	}
}
