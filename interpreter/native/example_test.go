// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/native"
)

func ExampleNew() {
	deployment := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "generation": int64(2)},
		"spec":   map[string]any{"replicas": int64(2), "colour": "blue"},
		"status": map[string]any{"observedGeneration": int64(1), "updatedReplicas": int64(2), "availableReplicas": int64(2)},
	}}
	answers := native.New()
	healthy, err := answers.Health(context.Background(), deployment)
	fmt.Println("healthy:", healthy, err) // the controller has not observed the latest generation
	revised, err := answers.Revise(context.Background(), deployment, 5)
	fmt.Println(revised.Object["spec"], err)
	// Output:
	// healthy: false <nil>
	// map[colour:blue replicas:5] <nil>
}

func ExamplePodRequests() {
	requests := func(cpu string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}
	}
	always := corev1.ContainerRestartPolicyAlways
	sum := native.PodRequests(&corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "proxy", RestartPolicy: &always, Resources: requests("100m")},
			{Name: "setup", Resources: requests("1")}},
		Containers: []corev1.Container{{Name: "main", Resources: requests("250m")}},
	})
	fmt.Println(sum.Cpu()) // setup runs next to the proxy
	// Output: 1100m
}

// Dependencies returns the objects that pods need, each once and sorted.
func ExampleDependencies() {
	spec := &corev1.PodSpec{
		ServiceAccountName: "web",
		Volumes: []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls"}}},
		},
		Containers: []corev1.Container{{Name: "c", EnvFrom: []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
		}}},
	}
	for _, d := range native.Dependencies(spec, "prod") {
		fmt.Println(d.Kind, d.Namespace+"/"+d.Name)
	}
	// Output:
	// ConfigMap prod/settings
	// Secret prod/tls
	// ServiceAccount prod/web
}

// Requirements returns the requirements of each pod of a template.
func ExampleRequirements() {
	spec := &corev1.PodSpec{
		NodeSelector: map[string]string{"disk": "ssd"},
		Containers: []corev1.Container{
			{Name: "c", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("2")}}},
		},
	}
	r := native.Requirements(spec, "prod")
	fmt.Println(r.Namespace, r.NodeClaim.NodeSelector, r.ResourceRequest.Cpu()) // a limit alone is the request
	// Output: prod map[disk:ssd] 2
}

// A Deployment is available if it is available on all clusters.
func ExampleInterpreter_aggregate() {
	deployment := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web"}}}
	of := func(cluster, status string) interpreter.AggregatedStatusItem {
		return interpreter.AggregatedStatusItem{ClusterName: cluster, Status: &runtime.RawExtension{Raw: []byte(status)}}
	}
	aggregated, err := native.New().AggregateStatus(context.Background(), deployment, []interpreter.AggregatedStatusItem{
		of("east", `{"replicas": 2, "conditions": [{"type": "Available", "status": "True", "message": "all are there"}]}`),
		of("west", `{"replicas": 3, "conditions": [{"type": "Available", "status": "False", "reason": "Quota", "message": "one is missing"}]}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	replicas, _, _ := unstructured.NestedInt64(aggregated.Object, "status", "replicas")
	conditions, _, _ := unstructured.NestedSlice(aggregated.Object, "status", "conditions")
	available := conditions[0].(map[string]any)
	fmt.Println(replicas, available["type"], available["status"], available["reason"], "-", available["message"])
	// Output: 5 Available False Quota - west: one is missing
}
