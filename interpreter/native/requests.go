// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// PodRequests returns what a pod requests, as the scheduler counts it: the sum of its containers, or what its greatest
// init container needs, with sidecars (init containers that restart) beside what runs at the same time; requests of the
// pod as a whole in place of that sum; and its overhead.
func PodRequests(spec *corev1.PodSpec) corev1.ResourceList {
	requests := corev1.ResourceList{}
	for i := range spec.Containers {
		add(requests, spec.Containers[i].Resources.Requests)
	}
	sidecars, greatest := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(requests, c.Resources.Requests)
			add(sidecars, c.Resources.Requests)
			raise(greatest, sidecars)
			continue
		}
		// It runs beside the sidecars that were started before it.
		needs := corev1.ResourceList{}
		add(needs, c.Resources.Requests)
		add(needs, sidecars)
		raise(greatest, needs)
	}
	raise(requests, greatest)
	if spec.Resources != nil {
		for name, quantity := range spec.Resources.Requests {
			if podLevel(name) {
				requests[name] = quantity.DeepCopy()
			}
		}
	}
	add(requests, spec.Overhead)
	return requests
}

// podLevel reports whether a pod as a whole can request a resource.
func podLevel(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func add(to, what corev1.ResourceList) {
	for name, quantity := range what {
		sum := to[name].DeepCopy()
		if _, there := to[name]; !there {
			sum = quantity.DeepCopy()
		} else {
			sum.Add(quantity)
		}
		to[name] = sum
	}
}

// raise makes each quantity at least the other one.
func raise(to, least corev1.ResourceList) {
	for name, quantity := range least {
		if now, there := to[name]; !there || quantity.Cmp(now) > 0 {
			to[name] = quantity.DeepCopy()
		}
	}
}
