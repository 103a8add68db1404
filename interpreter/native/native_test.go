// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/resource"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/interpretertest"
	"github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var files = []string{"testdata/workloads.yaml", "testdata/aggregate.yaml"}

// TestCases runs the cases in the process, and against a webhook in the Interpret protocol.
func TestCases(t *testing.T) {
	server := httptest.NewTLSServer(interpreter.NewHandler(native.New(), interpreter.HandlerOptions{}))
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for _, file := range files {
		interpretertest.RunFile(t, native.New(), file)
		interpretertest.RunFile(t, interpretertest.URL(t, interpreter.ProtocolInterpret, server.URL, ca), file)
	}
}

// TestHealth checks the health of each object, in each state that the cases name.
func TestHealth(t *testing.T) {
	tests := []struct {
		reason, object string
		want           bool
	}{
		{"rolled out", "kind: Deployment, metadata: {generation: 2}, spec: {replicas: 2}, status: {observedGeneration: 2, " +
			"replicas: 2, updatedReplicas: 2, availableReplicas: 2}", true},
		{"manifest with a status",
			"kind: Deployment, spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, " +
				"availableReplicas: 2}", true},
		{"not observed", "kind: Deployment, metadata: {generation: 3}, spec: {replicas: 2}, status: {observedGeneration: " +
			"2, replicas: 2, updatedReplicas: 2, availableReplicas: 2}", false},
		{"old pods remain", "kind: Deployment, spec: {replicas: 2}, status: {replicas: 3, updatedReplicas: 2, " +
			"availableReplicas: 3}", false},
		{"nil replicas are one", "kind: Deployment, spec: {}, status: {}", false},
		{"progress deadline exceeded",
			"kind: Deployment, spec: {replicas: 0}, status: {conditions: [{type: Progressing, status: 'False', reason: " +
				"ProgressDeadlineExceeded}]}", false},
		{"rolled out", "kind: StatefulSet, spec: {replicas: 2}, status: {updatedReplicas: 2, availableReplicas: 2}", true},
		{"updated to the partition",
			"kind: StatefulSet, spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}}, status: " +
				"{updatedReplicas: 1, availableReplicas: 3}", true},
		{"not updated to the partition",
			"kind: StatefulSet, spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 1}}}, status: " +
				"{updatedReplicas: 1, availableReplicas: 3}", false},
		{"an updated pod is not available",
			"kind: StatefulSet, spec: {replicas: 1}, status: {updatedReplicas: 2, availableReplicas: 1}", false},
		{"status of an earlier object",
			"kind: StatefulSet, metadata: {generation: 1}, spec: {replicas: 1}, status: {observedGeneration: 5, " +
				"updatedReplicas: 1, availableReplicas: 1}", false},
		{"strategy OnDelete",
			"kind: StatefulSet, spec: {replicas: 1, updateStrategy: {type: OnDelete}}, status: {availableReplicas: 1}", true},
		{"available", "kind: ReplicaSet, spec: {replicas: 1}, status: {availableReplicas: 1}", true},
		{"available on all nodes",
			"kind: DaemonSet, status: {desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 2}", true},
		{"an updated pod is not available",
			"kind: DaemonSet, status: {desiredNumberScheduled: 1, updatedNumberScheduled: 2, numberAvailable: 1}", false},
		{"available on one node",
			"kind: DaemonSet, status: {desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 1}", false},
		{"runs", "kind: Job, status: {active: 1}", true},
		{"not started", "kind: Job, status: {}", false},
		{"suspended", "kind: Job, spec: {suspend: true}", true},
		{"done", "kind: Job, status: {succeeded: 1, conditions: [{type: Complete, status: 'True'}]}", true},
		{"failed", "kind: Job, status: {active: 1, conditions: [{type: Failed, status: 'True'}]}", false},
		{"never ran", "kind: CronJob, status: {}", true},
		{"succeeded", "kind: CronJob, status: {lastScheduleTime: '2026-01-01T00:00:00Z', lastSuccessfulTime: " +
			"'2026-01-01T00:01:00Z'}", true},
		{"last run failed", "kind: CronJob, status: {lastScheduleTime: '2026-01-02T00:00:00Z', lastSuccessfulTime: " +
			"'2026-01-01T00:01:00Z'}", false},
		{"runs", "kind: CronJob, status: {active: [{name: j}], lastScheduleTime: '2026-01-02T00:00:00Z'}", true},
		{"ready", "kind: Pod, status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}", true},
		{"not ready", "kind: Pod, status: {phase: Running}", false},
		{"done", "kind: Pod, status: {phase: Succeeded}", true},
		{"type ClusterIP", "kind: Service, spec: {type: ClusterIP}", true},
		{"no address", "kind: Service, spec: {type: LoadBalancer}", false},
		{"an address", "kind: Service, spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 1.1.1.1}]}}", true},
		{"ports without an address",
			"kind: Service, spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ports: [{port: 1}]}]}}", false},
		{"ports without an address", "kind: Ingress, status: {loadBalancer: {ingress: [{ports: [{port: 1}]}]}}", false},
		{"a host name", "kind: Ingress, status: {loadBalancer: {ingress: [{hostname: a}]}}", true},
		{"an address", "kind: Ingress, status: {loadBalancer: {ingress: [{ip: 1.1.1.1}]}}", true},
		{"bound", "kind: PersistentVolume, status: {phase: Bound}", true},
		{"available", "kind: PersistentVolume, status: {phase: Available}", true},
		{"failed", "kind: PersistentVolume, status: {phase: Failed}", false},
		{"bound", "kind: PersistentVolumeClaim, status: {phase: Bound}", true},
		{"lost", "kind: PersistentVolumeClaim, status: {phase: Lost}", false},
		{"enough healthy pods", "kind: PodDisruptionBudget, status: {currentHealthy: 2, desiredHealthy: 2}", true},
		{"too few healthy pods", "kind: PodDisruptionBudget, status: {currentHealthy: 1, desiredHealthy: 2}", false},
		{"scales", "kind: HorizontalPodAutoscaler, status: {conditions: [{type: AbleToScale, status: 'True'}, {type: " +
			"ScalingActive, status: 'True'}]}", true},
		{"no metrics", "kind: HorizontalPodAutoscaler, status: {conditions: [{type: AbleToScale, status: 'True'}, {type: " +
			"ScalingActive, status: 'False', reason: FailedGetResourceMetric}]}", false},
		{"scaling is disabled",
			"kind: HorizontalPodAutoscaler, status: {conditions: [{type: AbleToScale, status: 'True'}, {type: ScalingActive, " +
				"status: 'False', reason: ScalingDisabled}]}", true},
		{"not observed", "kind: HorizontalPodAutoscaler", false},
	}
	n := native.New()
	versions := map[string]string{}
	for _, gvk := range n.Kinds() {
		versions[gvk.Kind] = gvk.GroupVersion().String()
	}
	for _, test := range tests {
		var content map[string]any
		if err := yaml.Unmarshal([]byte("{"+test.object+"}"), &content); err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{Object: content}
		u.SetAPIVersion(versions[u.GetKind()])
		if got, err := n.Health(t.Context(), u); err != nil || got != test.want {
			t.Errorf("%s: {%s} is healthy: %v (%v), want %v", test.reason, test.object, got, err, test.want)
		}
	}
}

// FuzzPodRequests compares the requests of pods with the scheduler's own library.
func FuzzPodRequests(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, data []byte) {
		requests(t, randfill.NewFromGoFuzz(data))
	})
}

func TestPodRequests(t *testing.T) {
	for seed := range 2000 {
		requests(t, randfill.NewWithSeed(int64(seed)))
	}
}

func requests(t *testing.T, fill *randfill.Filler) {
	t.Helper()
	names := []corev1.ResourceName{"cpu", "memory", "hugepages-2Mi", "example.com/gpu", "ephemeral-storage"}
	pod := &corev1.Pod{}
	fill.NilChance(.3).NumElements(0, 4).Funcs(
		func(l *corev1.ResourceList, c randfill.Continue) {
			*l = corev1.ResourceList{}
			for _, name := range names {
				if c.Intn(2) == 0 {
					(*l)[name] = *apiresource.NewQuantity(int64(c.Intn(5)), apiresource.DecimalSI)
				}
			}
		},
		// The library expects pods as the API server stores them: each limit has a request.
		func(r *corev1.ResourceRequirements, c randfill.Continue) { c.Fill(&r.Requests) },
		func(p *corev1.ContainerRestartPolicy, c randfill.Continue) {
			*p = []corev1.ContainerRestartPolicy{"Always", "Never", ""}[c.Intn(3)]
		},
		func(c *corev1.Container, r randfill.Continue) {
			r.Fill(&c.Resources)
			r.Fill(&c.RestartPolicy)
		},
		func(s *corev1.PodSpec, r randfill.Continue) {
			r.Fill(&s.Containers)
			r.Fill(&s.InitContainers)
			r.Fill(&s.Overhead)
			r.Fill(&s.Resources)
		},
	).Fill(&pod.Spec)
	want := resource.PodRequests(pod, resource.PodResourcesOptions{})
	got := native.PodRequests(&pod.Spec)
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(got)
	if string(a) != string(b) {
		spec, _ := yaml.Marshal(pod.Spec)
		t.Fatalf("got %s, want %s\n%s", b, a, spec)
	}
}

// FuzzNative checks that no input panics, the same question has the same answer, and no unknown
// field is lost.
func FuzzNative(f *testing.F) {
	var cases []interpretertest.Case
	for _, file := range files {
		list, err := interpretertest.Load(file)
		if err != nil {
			f.Fatal(err)
		}
		cases = append(cases, list...)
	}
	for i := range cases {
		object, _ := json.Marshal(cases[i].Object)
		observed, _ := json.Marshal(cases[i].Observed)
		statuses, _ := json.Marshal(cases[i].Statuses)
		f.Add(object, observed, statuses, cases[i].Replicas)
	}
	f.Fuzz(func(t *testing.T, object, observed, statuses []byte, replicas int32) {
		u, o := &unstructured.Unstructured{}, &unstructured.Unstructured{}
		if u.UnmarshalJSON(object) != nil || u.IsList() {
			return
		}
		if o.UnmarshalJSON(observed) != nil {
			o = u.DeepCopy()
		}
		var items []interpreter.AggregatedStatusItem
		_ = json.Unmarshal(statuses, &items) // invalid JSON gives no items
		items = append(items,
			interpreter.AggregatedStatusItem{ClusterName: "fuzz", Status: &runtime.RawExtension{Raw: statuses}})
		u.Object["unknownToTheType"] = "kept"
		n := native.New()
		before := u.DeepCopy()
		for _, operation := range v1alpha1.InterpreterOperations() {
			q := interpreter.Query{Operation: operation, Object: u, Observed: o, Statuses: items, Replicas: replicas}
			first, err := n.Interpret(t.Context(), q)
			second, again := n.Interpret(t.Context(), q)
			if fmt.Sprint(err) != fmt.Sprint(again) || !reflect.DeepEqual(first, second) {
				t.Fatalf("%s: two answers: %v %v", operation, err, again)
			}
			if err != nil && strings.Contains(err.Error(), "panicked") {
				t.Fatalf("%s: %v", operation, err)
			}
			if first.Object != nil && first.Object.Object["unknownToTheType"] != "kept" {
				t.Fatalf("%s has lost a field", operation)
			}
		}
		if diff := cmp.Diff(before, u); diff != "" {
			t.Fatalf("the object was changed: %s", diff)
		}
	})
}
