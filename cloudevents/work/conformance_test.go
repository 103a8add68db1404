// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"strings"
	"testing"

	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/conformance"
)

// difference is a line that a source or agent gives where the API server gives another.
type difference struct {
	line   string
	reason string
}

// TestConformance runs the scripts whose transcripts a real API server has given. Every line must be the same
// or be listed in differences, and every listed difference must exist.
func TestConformance(t *testing.T) {
	golden := conformance.Golden()
	for _, script := range conformance.All {
		t.Run(script.Name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				cleaning := !strings.HasPrefix(script.Name, "spoke")
				agents := &agentsOf{WorkV1Interface: h.Clientset().WorkV1(), spokes: map[string]*spoke{}}
				s.settle()
				got := conformance.Run(s.t.Context(), conformance.Target{
					Hub: h.Clientset().WorkV1(), Spoke: agents,
					Namespace: func() string {
						cluster := fmt.Sprintf("cluster%d", len(agents.spokes)+1)
						agents.spokes[cluster] = s.agent(work.AgentOptions{ClusterName: cluster, Sources: []string{"hub"}})
						s.settle()
						return cluster
					},
					Settle: func() {
						s.settle()
						if cleaning { // as a work controller would that has nothing to clean up
							agents.clean()
							s.settle()
						}
					},
				}, script)
				compare(t, script.Name, golden[script.Name], got)
			})
		})
	}
}

// agentsOf is a clientset whose namespaces are the clusters of several agents.
type agentsOf struct {
	worktyped.WorkV1Interface
	spokes map[string]*spoke
}

func (a *agentsOf) ManifestWorks(namespace string) worktyped.ManifestWorkInterface {
	return a.spokes[namespace].works()
}

// clean takes the finalizer off the works that were first heard of as deleting.
func (a *agentsOf) clean() {
	for _, spoke := range a.spokes {
		for _, name := range spoke.names() {
			if w := spoke.get(name); w.DeletionTimestamp != nil && len(w.Finalizers) > 0 {
				spoke.setFinalizers(name)
			}
		}
	}
}

func compare(t *testing.T, script string, want, got []string) {
	t.Helper()
	lines := map[string]string{}
	for _, line := range got {
		label, text, _ := strings.Cut(line, ": ")
		lines[label] = text
	}
	for _, line := range want {
		label, oracle, _ := strings.Cut(line, ": ")
		ours, ok := lines[label]
		delete(lines, label)
		d, listed := differences[script+"/"+label]
		switch {
		case !ok:
			t.Errorf("%s: not reached", label)
		case listed && oracle == d.line:
			t.Errorf("%s: listed as a difference, but the API server does the same", label)
		case listed && ours != d.line:
			t.Errorf("%s (%s)\n ours      %s\n listed    %s\n apiserver %s", label, d.reason, ours, d.line, oracle)
		case !listed && ours != oracle:
			t.Errorf("%s\n ours      %s\n apiserver %s", label, ours, oracle)
		}
	}
	for label, text := range lines {
		t.Errorf("%s: only ours: %s", label, text)
	}
}

// Reasons of the differences, as the package doc has them.
const (
	internalError = "the API server answers a version that is none with an internal error; it is the caller's mistake, and told as such"
	newer         = "the metadata is checked by the functions of apimachinery 0.37, the oracle's by those of 0.36"
	noNamespace   = "without a namespace there is no request, so no 404 for its path"
	agentDone     = "when its agent is done, the clean-up finalizer goes; another finalizer keeps the object, which is a change of its own"
	future        = "a version from the future is an error, where the API server waits for it in silence"
)

// differences by script and label. The package doc lists the reasons.
var differences = map[string]difference{
	"create/bad owner": {
		line:   `error Invalid code=422 details=work.open-cluster-management.io/ManifestWork "x" cause=FieldValueRequired metadata.ownerReferences[0].apiVersion "Required value: must not be empty" cause=FieldValueRequired metadata.ownerReferences[0].kind "Required value: must not be empty" cause=FieldValueRequired metadata.ownerReferences[0].uid "Required value: must not be empty" cause=FieldValueInvalid <nil> "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"`,
		reason: newer,
	},
	"create/no namespace": {
		line:   `error BadRequest code=400`,
		reason: noNamespace,
	},
	"create/resourceVersion": {
		line:   `error BadRequest code=400`,
		reason: internalError,
	},
	"get/bad version": {
		line:   `error BadRequest code=400`,
		reason: internalError,
	},
	"get/no namespace": {
		line:   `error "an empty namespace may not be set when a resource name is provided"`,
		reason: noNamespace,
	},
	"update/version that is none": {
		line:   `error Conflict code=409 details=work.open-cluster-management.io/manifestworks "app"`,
		reason: internalError,
	},
	"watch/bad version": {
		line:   `error BadRequest code=400`,
		reason: internalError,
	},
	"watch/deletion by label": {
		line:   `MODIFIED ns/one map[x:2], MODIFIED ns/one map[x:2] deleting, MODIFIED ns/one map[x:2] deleting`,
		reason: agentDone,
	},
	"watch/from the future": {
		line:   `ERROR Timeout code=504, closed`,
		reason: future,
	},
}
