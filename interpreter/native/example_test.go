// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
	fmt.Println("healthy:", healthy, err) // the controller has not seen the newest generation
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
		InitContainers: []corev1.Container{{Name: "proxy", RestartPolicy: &always, Resources: requests("100m")}, {Name: "setup", Resources: requests("1")}},
		Containers:     []corev1.Container{{Name: "main", Resources: requests("250m")}},
	})
	fmt.Println(sum.Cpu()) // setup beside the proxy
	// Output: 1100m
}
