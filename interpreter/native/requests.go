// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// PodRequests returns the requests of a pod, as the scheduler counts them. They are the sum of its
// containers, or the greatest init container if that is more. Sidecars, which are init containers
// that restart, are added to both. Requests of the pod as a whole replace the sum. The overhead is
// added. A limit without a request counts as the request: the API server sets it in a pod, but not
// in the template of a workload.
func PodRequests(spec *corev1.PodSpec) corev1.ResourceList {
	requests := corev1.ResourceList{}
	for i := range spec.Containers {
		add(requests, requested(&spec.Containers[i].Resources))
	}
	sidecars, greatest := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		needs := requested(&c.Resources)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(requests, needs)
			add(sidecars, needs)
			raise(greatest, sidecars)
			continue
		}
		// It runs together with the sidecars that were started before it.
		add(needs, sidecars)
		raise(greatest, needs)
	}
	raise(requests, greatest)
	if spec.Resources != nil {
		requestAsWhole(requests, spec.Resources)
	}
	add(requests, spec.Overhead)
	return requests
}

// requested uses a limit in place of a missing request.
func requested(r *corev1.ResourceRequirements) corev1.ResourceList {
	out := corev1.ResourceList{}
	maps.Copy(out, r.Limits)
	maps.Copy(out, r.Requests)
	return out
}

// requestAsWhole replaces the sum over containers by the requests of the pod as a whole. A limit of
// the pod counts if neither the pod nor any container requests the resource. For huge pages, it always
// counts.
func requestAsWhole(requests corev1.ResourceList, whole *corev1.ResourceRequirements) {
	for name, limit := range whole.Limits {
		if _, there := requests[name]; podLevel(name) && (!there || hugePages(name)) {
			requests[name] = limit.DeepCopy()
		}
	}
	for name, quantity := range whole.Requests {
		if podLevel(name) {
			requests[name] = quantity.DeepCopy()
		}
	}
}

func podLevel(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || hugePages(name)
}

func hugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func add(to, what corev1.ResourceList) {
	for name, quantity := range what {
		sum := quantity.DeepCopy()
		if now, there := to[name]; there {
			sum = now.DeepCopy() // keeps its format
			sum.Add(quantity)
		}
		to[name] = sum
	}
}

// raise sets each quantity to at least the quantity in least.
func raise(to, least corev1.ResourceList) {
	for name, quantity := range least {
		if now, there := to[name]; !there || quantity.Cmp(now) > 0 {
			to[name] = quantity.DeepCopy()
		}
	}
}
