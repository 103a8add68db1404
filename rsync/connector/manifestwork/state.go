// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

var (
	errDeleting    = errors.New("its work is being deleted")
	errNotReported = errors.New("the agent has not reported yet")
	errOutdated    = errors.New("the agent has not reported on the latest change yet")
	errUnapplied   = errors.New("the agent could not apply all of the work")
)

// statusFeedbackSynced is the condition with the generation of the values that an agent reports.
const statusFeedbackSynced = "StatusFeedbackSynced"

// reported returns why the agent has not applied the current version of a work, or nil.
func reported(w *workv1.ManifestWork) error {
	applied := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
	switch {
	case w.DeletionTimestamp != nil:
		return errDeleting
	case applied == nil:
		return errNotReported
	case applied.ObservedGeneration < w.Generation:
		return errOutdated
	case applied.Status != metav1.ConditionTrue:
		return errUnapplied
	}
	return nil
}

// stateOf returns the state of an object according to the works that were read.
func stateOf(object appcontext.Object, works []*holder, o *Options) connector.State {
	for _, w := range works {
		if i, held := w.at[object]; held {
			condition := conditionOf(w.work, object, i)
			state := heldState(object, w.work, i, &condition, o)
			if o.State != nil {
				o.State(&state, condition)
			}
			return state
		}
	}
	state := connector.State{Object: object}
	for _, w := range works {
		if w.mayHave(object) {
			state.Exists = true
			state.Message = "it is being removed: " + removing(w.work)
			break
		}
	}
	return state
}

func removing(w *workv1.ManifestWork) string {
	if err := reported(w); err != nil {
		return err.Error()
	}
	return "the agent still lists it"
}

// heldState returns the state of an object in a work, at an index of its manifests.
func heldState(
	object appcontext.Object, w *workv1.ManifestWork, i int, c *workv1.ManifestCondition, o *Options,
) connector.State {
	state := connector.State{Object: object}
	if w.DeletionTimestamp != nil {
		state.Exists, state.Message = true, errDeleting.Error()
		return state
	}
	applied := meta.FindStatusCondition(c.Conditions, workv1.ManifestApplied)
	available := meta.FindStatusCondition(c.Conditions, workv1.ManifestAvailable)
	state.Exists = available != nil && available.Status == metav1.ConditionTrue
	known := reported(w)
	switch problem := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkDegraded); {
	case known != nil && problem != nil && problem.Status == metav1.ConditionTrue:
		state.Message = "the work is degraded: " + driver.OneLine(problem.Reason+": "+problem.Message)
	case known != nil && !errors.Is(known, errUnapplied):
		state.Message = known.Error()
	case applied == nil || !recent(applied, w):
		state.Message = errOutdated.Error()
	case applied.Status != metav1.ConditionTrue:
		state.Message = "the agent could not apply it: " + driver.OneLine(applied.Message)
	case available == nil || !recent(available, w) || !availableKnown(available, w):
		state.Message = "the agent has not reported yet whether it exists"
	case !state.Exists:
		state.Message = "it is not available: " + driver.OneLine(available.Message)
	default:
		state.Ready, state.Failed, state.Message = judged(object, w, i, c, o)
	}
	return state
}

// recent reports whether a condition of a manifest is not of an earlier generation, which agents
// may omit.
func recent(c *metav1.Condition, w *workv1.ManifestWork) bool {
	return c.ObservedGeneration == 0 || c.ObservedGeneration >= w.Generation
}

// availableKnown is for agents that report the generation of Available on the work only.
func availableKnown(c *metav1.Condition, w *workv1.ManifestWork) bool {
	whole := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkAvailable)
	return c.ObservedGeneration != 0 || whole == nil || whole.ObservedGeneration == 0 ||
		whole.ObservedGeneration >= w.Generation
}

// judged returns whether an existing object is ready or has failed.
func judged(
	object appcontext.Object, w *workv1.ManifestWork, i int, c *workv1.ManifestCondition, o *Options,
) (ready, failed bool, message string) {
	ready = true
	if rule := ruleOf(object); rule != nil && asked(o.Config(object), rule) {
		ready, failed, message = rule.judge(valuesOf(c), w.Spec.Workload.Manifests[i].Raw)
	}
	switch synced := meta.FindStatusCondition(c.Conditions, statusFeedbackSynced); {
	case failed && synced != nil && !recent(synced, w):
		return false, false, errOutdated.Error()
	case failed:
		if why := meta.FindStatusCondition(c.Conditions, workv1.ManifestDegraded); why != nil &&
			why.Status == metav1.ConditionTrue && recent(why, w) {
			message = driver.OneLine(message + ": " + why.Message)
		}
		return false, true, message
	}
	for _, kind := range []string{workv1.ManifestComplete, workv1.ManifestProgressing, workv1.ManifestDegraded} {
		found := meta.FindStatusCondition(c.Conditions, kind)
		wanted := metav1.ConditionFalse
		if kind == workv1.ManifestComplete {
			wanted = metav1.ConditionTrue
		}
		if found != nil && (found.Status != wanted || !recent(found, w)) {
			return false, false, driver.OneLine(fmt.Sprintf("%s is %s: %s", kind, found.Status, found.Message))
		}
	}
	return ready, failed, message
}

// conditionOf returns the agent's report of an object at an index of the manifests. For an object
// without a namespace, an agent may report the namespace in which it put the object.
func conditionOf(w *workv1.ManifestWork, object appcontext.Object, i int) workv1.ManifestCondition {
	var found *workv1.ManifestCondition
	for j := range w.Status.ResourceStatus.Manifests {
		c := &w.Status.ResourceStatus.Manifests[j]
		if !names(&c.ResourceMeta, object) {
			continue
		}
		if c.ResourceMeta.Namespace == object.Namespace {
			return *c
		}
		if found == nil || int(c.ResourceMeta.Ordinal) == i {
			found = c
		}
	}
	if found == nil {
		return workv1.ManifestCondition{}
	}
	return *found
}

// names reports whether a report is about an object. No namespace may be the default namespace.
func names(m *workv1.ManifestResourceMeta, o appcontext.Object) bool {
	return m.Group == o.Group && m.Kind == o.Kind && m.Name == o.Name &&
		(m.Namespace == o.Namespace || o.Namespace == "" && m.Namespace == metav1.NamespaceDefault)
}
