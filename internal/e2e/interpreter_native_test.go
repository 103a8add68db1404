// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	helpers "k8s.io/component-helpers/resource"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/interpretertest"
	"github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// TestInterpreterPodRequests: for random pod templates, the counted requests equal those of the
// scheduler's library for the pods that a real API server creates from them, with its defaults.
func TestInterpreterPodRequests(t *testing.T) {
	t.Parallel()
	client, err := kubernetes.NewForConfig(kube.Shared(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for seed := range uint64(300) {
		pod := randomPod(rand.New(rand.NewPCG(seed, 7)))
		got := native.PodRequests(&pod.Spec)
		created, err := client.CoreV1().Pods("default").Create(t.Context(), pod,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsInvalid(err) { // containers that request more than the whole pod
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		taken++
		if want := helpers.PodRequests(created, helpers.PodResourcesOptions{}); !equality.Semantic.DeepEqual(got, want) {
			text, _ := yaml.Marshal(pod.Spec)
			t.Fatalf("seed %d: got %v, want %v\n%s", seed, got, want, text)
		}
	}
	if taken < 100 {
		t.Errorf("the API server took %d pods only", taken)
	}
}

func randomPod(r *rand.Rand) *corev1.Pod {
	list := func(least int64, names ...corev1.ResourceName) corev1.ResourceList {
		out := corev1.ResourceList{}
		for _, name := range names {
			if r.IntN(2) == 0 {
				out[name] = *resource.NewQuantity((least+r.Int64N(4))<<21, resource.BinarySI) // whole pages
			}
		}
		return out
	}
	container := func(name string) corev1.Container {
		limits := list(4, "cpu", "memory", "example.com/gpu", "hugepages-2Mi")
		if _, huge := limits["hugepages-2Mi"]; huge { // hugepages need a request for cpu or memory too
			limits["cpu"] = *resource.NewQuantity(4<<21, resource.BinarySI)
		}
		c := corev1.Container{Name: name, Image: "image", Resources: corev1.ResourceRequirements{Limits: limits}}
		if r.IntN(2) == 0 {
			c.Resources.Requests = list(0, "cpu", "memory")
		}
		return c
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "requests-"}}
	pod.Spec.AutomountServiceAccountToken = new(false)
	for i := range 1 + r.IntN(3) {
		pod.Spec.Containers = append(pod.Spec.Containers, container(fmt.Sprintf("c%d", i)))
	}
	for i := range r.IntN(3) {
		c := container(fmt.Sprintf("i%d", i))
		if r.IntN(2) == 0 {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	if r.IntN(2) == 0 {
		pod.Spec.Resources = &corev1.ResourceRequirements{Limits: list(40, "cpu", "memory", "hugepages-2Mi")}
		if r.IntN(2) == 0 {
			pod.Spec.Resources.Requests = list(30, "cpu", "memory")
		}
	}
	return pod
}

// TestInterpreterAggregates: a real API server accepts the aggregated statuses of the cases of
// package native.
func TestInterpreterAggregates(t *testing.T) {
	t.Parallel()
	client, err := dynamic.NewForConfig(kube.Shared(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/interpreter-objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var specs map[string]struct {
		Resource string
		Cluster  bool // the kind is cluster-scoped
		Spec     map[string]any
	}
	if err := yaml.UnmarshalStrict(text, &specs); err != nil {
		t.Fatal(err)
	}
	cases, err := interpretertest.Load(filepath.Join("..", "..", "interpreter", "native", "testdata", "aggregate.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		if c.Want.Error != "" {
			continue
		}
		object := &unstructured.Unstructured{Object: c.Object}
		spec, ok := specs[object.GetKind()]
		if !ok {
			t.Fatalf("there is no spec of a %s", object.GetKind())
		}
		t.Run(c.Name, func(t *testing.T) {
			namespace := "default"
			if spec.Cluster {
				namespace = ""
			}
			resources := client.Resource(object.GroupVersionKind().GroupVersion().WithResource(spec.Resource)).Namespace(
				namespace)
			created := object.DeepCopy()
			created.SetName(fmt.Sprintf("aggregates-%d", i))
			created.Object["spec"] = spec.Spec
			delete(created.Object, "status") // the object gets only the clusters' status
			created, err := resources.Create(t.Context(), created, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			aggregated, err := native.New().AggregateStatus(t.Context(), created, c.Statuses)
			if err != nil {
				t.Fatal(err)
			}
			updated, err := resources.UpdateStatus(t.Context(), aggregated, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			again, err := native.New().AggregateStatus(t.Context(), updated, c.Statuses)
			if err != nil || !equality.Semantic.DeepEqual(again, updated) {
				t.Errorf("the second time it changes: %v\n%v\n%v", err, updated, again)
			}
		})
	}
}

// TestInterpreterJobHistory: for any history of a Job on changing clusters, a real API server
// accepts each aggregated status after the previous one.
func TestInterpreterJobHistory(t *testing.T) {
	t.Parallel()
	cluster := kube.Shared(t)
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	jobs := client.Resource(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}).Namespace(
		"default")
	ends := map[string]int{}
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 9))
		job := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(`{apiVersion: batch/v1, kind: Job, metadata: {generateName: history-},
			spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: c}]}}}}`), &job.Object); err != nil {
			t.Fatal(err)
		}
		if job, err = jobs.Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		clusters := map[string]*batchv1.JobStatus{"a": {}}
		for step := range 25 {
			happen(r, clusters, time.Date(2026, 1, 1, 0, step, 0, 0, time.UTC))
			before := job
			if job, err = native.New().AggregateStatus(t.Context(), job, items(t, clusters)); err != nil {
				t.Fatal(err)
			}
			if job, err = jobs.UpdateStatus(t.Context(), job, metav1.UpdateOptions{}); err != nil {
				text, _ := yaml.Marshal(clusters)
				was, _ := yaml.Marshal(before.Object["status"])
				t.Fatalf("seed %d, step %d: %v\nbefore:\n%s\nclusters:\n%s", seed, step, err, was, text)
			}
		}
		conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
		for _, c := range conditions {
			ends[c.(map[string]any)["type"].(string)]++
		}
	}
	for _, end := range []string{"FailureTarget", "Failed", "SuccessCriteriaMet", "Complete"} {
		if ends[end] == 0 {
			t.Errorf("no job ends with %s: %v", end, ends)
		}
	}
	t.Logf("%v", ends)
}

// happen advances the job on one cluster, or adds or removes a cluster.
func happen(r *rand.Rand, clusters map[string]*batchv1.JobStatus, now time.Time) {
	switch names := slices.Sorted(maps.Keys(clusters)); {
	case r.IntN(12) == 0 && len(names) < 3:
		clusters[fmt.Sprintf("c%d", r.IntN(9))] = &batchv1.JobStatus{}
	case r.IntN(20) == 0 && len(names) > 1:
		delete(clusters, names[r.IntN(len(names))])
	default:
		advance(r, clusters[names[r.IntN(len(names))]], metav1.NewTime(now))
	}
}

func advance(r *rand.Rand, s *batchv1.JobStatus, now metav1.Time) {
	end := func(kind batchv1.JobConditionType) {
		s.Conditions = append(s.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "Reason",
			LastTransitionTime: now, LastProbeTime: now})
	}
	switch {
	case s.StartTime == nil:
		s.StartTime, s.Active, s.Ready = &now, 2, new(int32(0))
	case len(s.Conditions) == 0 && r.IntN(3) > 0:
		s.Ready = new(s.Active)
	case len(s.Conditions) == 0:
		s.Terminating, s.Active, s.Ready = new(s.Active), 0, new(int32(0))
		end([]batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet,
			batchv1.JobSuccessCriteriaMet}[r.IntN(3)])
	case len(s.Conditions) == 1 && s.Conditions[0].Type == batchv1.JobFailureTarget:
		s.Failed, s.Terminating = 2, new(int32(0))
		end(batchv1.JobFailed)
	case len(s.Conditions) == 1:
		s.Succeeded, s.Terminating, s.CompletionTime = 2, new(int32(0)), &now
		end(batchv1.JobComplete)
	}
}

// items returns the reports of the clusters. The status of a new cluster is empty.
func items(t *testing.T, clusters map[string]*batchv1.JobStatus) (out []interpreter.AggregatedStatusItem) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		raw, err := json.Marshal(clusters[name])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v1alpha1.AggregatedStatusItem{ClusterName: name, Status: &runtime.RawExtension{Raw: raw}})
	}
	return out
}
