// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// stateOf gets the state of one object, and describes it: "exists ready: message".
func stateOf(t *testing.T, c connector.Connector, id, app string, r appcontext.Resource) string {
	t.Helper()
	states, err := c.Get(t.Context(), connector.Batch{AppContextID: id, App: app, Cluster: cluster1,
		Resources: []appcontext.Resource{r}})
	if err != nil || len(states) != 1 || states[0].Object != r.Object {
		t.Fatalf("Get: %+v, %v", states, err)
	}
	var words []string
	if states[0].Exists {
		words = append(words, "exists")
	}
	if states[0].Ready {
		words = append(words, "ready")
	}
	if states[0].Failed {
		words = append(words, "failed")
	}
	if states[0].Message != "" {
		words = append(words, "("+states[0].Message+")")
	}
	return strings.Join(words, " ")
}

// TestStates: an old report never counts for the current generation, and an object is gone only
// after the agent has reported it.
func TestStates(t *testing.T) {
	s := newScene(t)
	c := open(t, s.source, manifestwork.Options{})
	work := nameOf(t, s, "v1", "x")
	a := batch("v1", "x", [2]string{"a", "1"}).Resources[0]
	is := func(step, want string) {
		t.Helper()
		for _, id := range []string{"v1", "v2"} { // also for a context with a work that does not have it
			if got := stateOf(t, c, id, "x", a); got != want {
				t.Errorf("%s, asked for %s: %q, want %q", step, id, got, want)
			}
		}
	}
	apply := func(pairs ...[2]string) {
		t.Helper()
		if err := c.Apply(t.Context(), batch("v1", "x", pairs...)); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(name string) {
		t.Helper()
		if err := c.Delete(t.Context(), batch("v1", "x", [2]string{name, ""})); err != nil {
			t.Fatal(err)
		}
	}
	is("before all", "")
	apply([2]string{"a", "1"}, [2]string{"b", "1"})
	is("applied", "(the agent has not reported yet)")
	s.report(t, work, nil)
	is("reported", "exists ready")
	apply([2]string{"b", "2"})
	is("another changed", "exists (the agent has not reported on the latest change yet)")
	s.report(t, work, func(status *workv1.ManifestWorkStatus) {
		status.Conditions[0].Status = metav1.ConditionFalse
		status.ResourceStatus.Manifests[0].Conditions[0].Status = metav1.ConditionFalse
		status.ResourceStatus.Manifests[0].Conditions[0].Message = "no such\nnamespace"
	})
	is("not applied", "exists (the agent could not apply it: no such namespace)")
	s.report(t, work, func(status *workv1.ManifestWorkStatus) { status.Conditions[0].Status = metav1.ConditionFalse })
	is("another not applied", "exists ready")
	s.report(t, work, func(status *workv1.ManifestWorkStatus) {
		m := &status.ResourceStatus.Manifests[0]
		m.Conditions[1].Status = metav1.ConditionFalse
	})
	is("not available", "(it is not available: Available says so)")
	s.report(t, work, func(status *workv1.ManifestWorkStatus) { // like agents that report only on the whole work
		status.Conditions[1].ObservedGeneration--
		for i := range status.ResourceStatus.Manifests[0].Conditions {
			status.ResourceStatus.Manifests[0].Conditions[i].ObservedGeneration = 0
		}
	})
	is("available before the change", "exists (the agent has not reported yet whether it exists)")
	s.report(t, work, func(status *workv1.ManifestWorkStatus) {
		m := &status.ResourceStatus.Manifests[0]
		m.Conditions = append(m.Conditions, metav1.Condition{
			Type: workv1.ManifestComplete, Status: metav1.ConditionFalse, Reason: "Rule", Message: "not yet",
			LastTransitionTime: metav1.Unix(1_700_000_000, 0),
		})
	})
	is("not complete", "exists (Complete is False: not yet)")

	s.report(t, work, nil)
	remove("a")
	is("deleted", "exists (it is being removed: the agent has not reported on the latest change yet)")
	apply([2]string{"b", "3"})
	is("deleted, and another changed", "exists (it is being removed: the agent has not reported on the latest change yet)")
	s.report(t, work, func(status *workv1.ManifestWorkStatus) { status.Conditions[0].Status = metav1.ConditionFalse })
	is("something else is in the way", "exists (it is being removed: the agent could not apply all of the work)")
	s.report(t, work, nil)
	is("confirmed", "")
	apply([2]string{"b", "4"})
	is("confirmed, and another changed", "")
	apply([2]string{"a", "1"})
	remove("a")
	is("deleted before it was reported",
		"exists (it is being removed: the agent has not reported on the latest change yet)")
	s.report(t, work, nil)
	is("that confirmed", "")
	apply([2]string{"a", "1"})
	s.report(t, work, nil)
	remove("a")
	remove("b")
	is("deleted with its work", "exists (it is being removed: its work is being deleted)")
	s.release(t, work)
	is("the work gone", "")
}

// release makes the agent remove its finalizer from a work, and waits until the hub has deleted the
// work.
func (s *scene) release(t *testing.T, name string) {
	t.Helper()
	eventually(t, "the end of the work", func() string {
		agent := s.agent(t)
		if w, err := agent.Get(t.Context(), name, metav1.GetOptions{}); err == nil && w.DeletionTimestamp != nil &&
			len(w.Finalizers) > 0 {
			w.Finalizers = nil
			_, _ = agent.Update(t.Context(), w, metav1.UpdateOptions{}) // retried after a conflict
		}
		if _, err := s.source.WorkV1().ManifestWorks(cluster1.Name).Get(t.Context(), name, metav1.GetOptions{}); err == nil {
			return "still there"
		}
		return ""
	})
}

// TestFeedback: the reported status decides whether objects of some kinds are ready.
func TestFeedback(t *testing.T) {
	text := func(name, value string) workv1.FeedbackValue {
		return workv1.FeedbackValue{Name: name, Value: workv1.FieldValue{Type: workv1.String, String: &value}}
	}
	number := func(name string, n int64) workv1.FeedbackValue {
		return workv1.FeedbackValue{Name: name, Value: workv1.FieldValue{Type: workv1.Integer, Integer: &n}}
	}
	const (
		job        = "{apiVersion: batch/v1, kind: Job, metadata: {name: o, namespace: shop}}"
		deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: o}, spec: {replicas: 2}}"
		set        = "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: o, namespace: shop}}"
		daemons    = "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: o, namespace: shop}}"
		definition = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: o}}"
	)
	s := newScene(t)
	c := open(t, s.source, manifestwork.Options{})
	for _, tt := range []struct {
		reason, manifest, want string
		values                 []workv1.FeedbackValue
	}{
		{"nothing is known", job, "exists (the job is not complete)", nil},
		{"it runs", job, "exists (the job is not complete)", []workv1.FeedbackValue{text("JobComplete", "False")}},
		{"it is complete", job, "exists ready", []workv1.FeedbackValue{text("JobComplete", "True")}},
		{"it has failed", job, "exists failed (the job has failed)", []workv1.FeedbackValue{text("JobFailed", "True")}},
		{"zeros are left out", deployment, "exists (0 of 2 replicas are ready)", nil},
		{"old ones are there still", deployment, "exists (1 of 2 replicas are ready)",
			[]workv1.FeedbackValue{number("AvailableReplicas", 2), number("UpdatedReplicas", 1)}},
		{"all are there", deployment, "exists ready",
			[]workv1.FeedbackValue{number("AvailableReplicas", 2), number("UpdatedReplicas", 2)}},
		{"one by default", set, "exists (0 of 1 replicas are ready)", nil},
		{"that is there", set, "exists ready", []workv1.FeedbackValue{number("ReadyReplicas", 1)}},
		{"not scheduled", daemons, "exists (it is not scheduled yet)", nil},
		{"no nodes", daemons, "exists ready", []workv1.FeedbackValue{number("DesiredNumberScheduled", 0)}},
		{"some nodes", daemons, "exists (1 of 3 nodes have it)",
			[]workv1.FeedbackValue{number("DesiredNumberScheduled", 3), number("UpdatedReplicas", 1),
				number("AvailableReplicas", 3)}},
		{"not established", definition, "exists (the definition is not established)", nil},
		{"established", definition, "exists ready", []workv1.FeedbackValue{text("Established", "True")}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			object, err := appcontext.ParseObject([]byte(tt.manifest))
			if err != nil {
				t.Fatal(err)
			}
			r := appcontext.Resource{Object: object, Manifest: []byte(tt.manifest)}
			id := strings.ReplaceAll(tt.reason, " ", "-")
			b := connector.Batch{AppContextID: id, App: "x", Cluster: cluster1, Resources: []appcontext.Resource{r}}
			if err := c.Apply(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			name := nameOf(t, s, id, "x")
			s.report(t, name, func(status *workv1.ManifestWorkStatus) {
				m := &status.ResourceStatus.Manifests[0]
				m.StatusFeedbacks.Values = tt.values
				if m.ResourceMeta.Namespace == "" && object.Kind != "CustomResourceDefinition" {
					m.ResourceMeta.Namespace = metav1.NamespaceDefault // the namespace that the agent used
				}
			})
			if got := stateOf(t, c, id, "x", r); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if err := c.Delete(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			s.release(t, name)
		})
	}
}

// TestConfig: works have the values of the options, and Options.State makes the last change to a
// state.
func TestConfig(t *testing.T) {
	s := newScene(t)
	orphan := workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
	executor := workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type:           workv1.ExecutorSubjectTypeServiceAccount,
		ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "ops", Name: "deployer"},
	}}
	c := open(t, s.source, manifestwork.Options{
		Labels: map[string]string{"team": "shop"}, Annotations: map[string]string{"example.com/Why": "because"},
		DeleteOption: &orphan, Executor: &executor,
		Config: func(o appcontext.Object) *workv1.ManifestConfigOption {
			return &workv1.ManifestConfigOption{
				ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: o.Namespace, Name: o.Name},
				UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply},
			}
		},
		State: func(state *connector.State, c workv1.ManifestCondition) {
			state.Message = "seen with " + c.ResourceMeta.Name
		},
	})
	b := batch("v1", "x", [2]string{"a", "1"}, [2]string{"b", "1"})
	if err := c.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), batch("v1", "x", [2]string{"a", ""})); err != nil {
		t.Fatal(err)
	}
	name := nameOf(t, s, "v1", "x")
	w, err := s.source.WorkV1().ManifestWorks(cluster1.Name).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if w.Labels["team"] != "shop" || w.Labels[manifestwork.LabelManager] != "rsync" ||
		w.Annotations["example.com/Why"] != "because" {
		t.Errorf("labels %v, annotations %v", w.Labels, w.Annotations)
	}
	if configs := w.Spec.ManifestConfigs; len(configs) != 1 || configs[0].ResourceIdentifier.Name != "b" ||
		configs[0].UpdateStrategy.Type != workv1.UpdateStrategyTypeServerSideApply {
		t.Errorf("configs %+v", configs)
	}
	if w.Spec.Executor.Subject.ServiceAccount.Name != "deployer" ||
		w.Spec.DeleteOption.PropagationPolicy != orphan.PropagationPolicy {
		t.Errorf("spec %+v", w.Spec)
	}
	s.report(t, name, nil)
	if got := stateOf(t, c, "v1", "x", b.Resources[1]); got != "exists ready (seen with b)" {
		t.Errorf("%q", got)
	}
}

// TestFailedJob: a failed Job counts as failed even if its agent also reports progress. Feedback of
// an earlier generation does not count.
func TestFailedJob(t *testing.T) {
	const job = "{apiVersion: batch/v1, kind: Job, metadata: {name: o, namespace: shop}}"
	object, err := appcontext.ParseObject([]byte(job))
	if err != nil {
		t.Fatal(err)
	}
	r := appcontext.Resource{Object: object, Manifest: []byte(job)}
	s := newScene(t)
	c := open(t, s.source, manifestwork.Options{})
	b := connector.Batch{AppContextID: "v1", App: "x", Cluster: cluster1, Resources: []appcontext.Resource{r}}
	if err := c.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	condition := func(kind string, status metav1.ConditionStatus, generation int64) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: status, Reason: "Rule", Message: kind + " says so", ObservedGeneration: generation,
			LastTransitionTime: metav1.Unix(1_700_000_000, 0),
		}
	}
	const progressing, degraded, synced = workv1.ManifestProgressing, workv1.ManifestDegraded, "StatusFeedbackSynced"
	for _, tt := range []struct {
		reason, want string
		more         func(now int64) []metav1.Condition
	}{
		{"it progresses too", "exists failed (the job has failed)", func(now int64) []metav1.Condition {
			return []metav1.Condition{condition(progressing, "True", now), condition(degraded, "False", now),
				condition(synced, "True", now)}
		}},
		{"the agent says why", "exists failed (the job has failed: Degraded says so)", func(now int64) []metav1.Condition {
			return []metav1.Condition{condition(progressing, "True", now), condition(degraded, "True", now),
				condition(synced, "True", now)}
		}},
		{"the agent said why before", "exists failed (the job has failed)", func(now int64) []metav1.Condition {
			return []metav1.Condition{condition(degraded, "True", now-1)}
		}},
		{"not all values could be read", "exists failed (the job has failed)", func(now int64) []metav1.Condition {
			return []metav1.Condition{condition(synced, "False", now)}
		}},
		{"the values are of before", "exists (the agent has not reported on the latest change yet)",
			func(now int64) []metav1.Condition {
				return []metav1.Condition{condition(progressing, "True", now), condition(synced, "True", now-1)}
			}},
	} {
		// A change of another object increments the generation.
		if err := c.Apply(t.Context(), batch("v1", "x", [2]string{"other", tt.reason})); err != nil {
			t.Fatal(err)
		}
		isTrue := "True"
		s.report(t, nameOf(t, s, "v1", "x"), func(status *workv1.ManifestWorkStatus) {
			m := &status.ResourceStatus.Manifests[0]
			m.Conditions = append(m.Conditions, tt.more(status.Conditions[0].ObservedGeneration)...)
			m.StatusFeedbacks.Values = []workv1.FeedbackValue{
				{Name: "JobFailed", Value: workv1.FieldValue{Type: workv1.String, String: &isTrue}},
			}
		})
		if got := stateOf(t, c, "v1", "x", r); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.reason, got, tt.want)
		}
	}
}

// TestGetReadsAWorkOnce: Get does not parse the manifests of an unchanged work again.
func TestGetReadsAWorkOnce(t *testing.T) {
	const objects = 1000
	s := newScene(t)
	c := open(t, s.source, manifestwork.Options{Manager: "hub"})
	var pairs [][2]string
	for i := range objects {
		pairs = append(pairs, [2]string{fmt.Sprint("object", i), "1"})
	}
	all := batch("1", "app", pairs...)
	if err := c.Apply(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	ask := func() {
		if states, err := c.Get(t.Context(), all); err != nil || len(states) != objects {
			t.Errorf("%d states, %v", len(states), err)
		}
	}
	if allocations := testing.AllocsPerRun(5, ask); allocations > 5*objects {
		t.Errorf("%.0f allocations for %d objects", allocations, objects)
	}
}
