// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/spokewire/sdk-go/interpreter"
)

func pod() interpreter.HandlerFor[*corev1.Pod] {
	type object = *corev1.Pod
	return interpreter.HandlerFor[object]{
		DropUncertain: replacedStatus,

		Replica: func(_ context.Context, p object) (int32, *interpreter.ReplicaRequirements, error) {
			return 1, Requirements(&p.Spec, p.Namespace), nil
		},
		Retain:    retainPod,
		Aggregate: aggregatePod,
		Dependencies: func(_ context.Context, p object) ([]interpreter.DependentObjectReference, error) {
			return Dependencies(&p.Spec, p.Namespace), nil
		},
		Health: func(_ context.Context, p object) (bool, error) {
			if p.Status.Phase != corev1.PodRunning {
				return p.Status.Phase == corev1.PodSucceeded, nil
			}
			return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}), nil
		},
	}
}

// retainPod keeps the fields that the scheduler and admission of the cluster have set. Most fields
// of a pod are immutable, so the API server would reject an update without them.
func retainPod(_ context.Context, desired, observed *corev1.Pod) error {
	d, o := &desired.Spec, &observed.Spec
	d.NodeName = o.NodeName
	if d.ServiceAccountName == "" {
		d.ServiceAccountName, d.DeprecatedServiceAccount = o.ServiceAccountName, o.DeprecatedServiceAccount
	}
	if d.Priority == nil {
		d.Priority = o.Priority
	}
	if d.PreemptionPolicy == nil {
		d.PreemptionPolicy = o.PreemptionPolicy
	}
	if len(d.ImagePullSecrets) == 0 {
		d.ImagePullSecrets = o.ImagePullSecrets
	}
	d.Volumes = unionInOrder(d.Volumes, o.Volumes, func(v *corev1.Volume) string { return v.Name })
	d.Tolerations = union(d.Tolerations, o.Tolerations, encoded)
	retainMounts(d.InitContainers, o.InitContainers)
	retainMounts(d.Containers, o.Containers)
	return nil
}

func retainMounts(desired, observed []corev1.Container) {
	mounts := make(map[string][]corev1.VolumeMount, len(observed))
	for i := range observed {
		mounts[observed[i].Name] = observed[i].VolumeMounts
	}
	path := func(m *corev1.VolumeMount) string { return m.MountPath }
	for i := range desired {
		d := &desired[i]
		d.VolumeMounts = unionInOrder(d.VolumeMounts, mounts[d.Name], path)
	}
}

// union adds the elements of another list with a new key.
func union[T any](list, other []T, key func(*T) string) []T {
	if len(other) == 0 {
		return list
	}
	there := make(map[string]bool, len(list)+len(other))
	for i := range list {
		there[key(&list[i])] = true
	}
	for i := range other {
		if k := key(&other[i]); !there[k] {
			there[k] = true
			list = append(list, other[i])
		}
	}
	return list
}

// unionInOrder is union in the order of the observed list. The API server rejects another order of
// a pod's volumes and mounts, and webhooks of the cluster may have added elements at the start.
func unionInOrder[T any](desired, observed []T, key func(*T) string) []T {
	places := make(map[string]int, len(observed))
	for i := range observed {
		places[key(&observed[i])] = i - len(observed) // negative, so others are last
	}
	list := union(desired, observed, key)
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(places[key(&a)], places[key(&b)]) })
	return list
}

// encoded is a key that compares all fields.
func encoded[T any](element *T) string {
	text, err := json.Marshal(element)
	if err != nil {
		return "" // a decoded element can be encoded
	}
	return string(text)
}

// phases has the most important phase first.
var phases = []corev1.PodPhase{
	corev1.PodFailed, corev1.PodUnknown, corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded,
}

func aggregatePod(_ context.Context, p *corev1.Pod, items []interpreter.AggregatedStatusItem) error {
	sum := p.Status // it has the QoS class, which the API server sets
	sum.StartTime, sum.InitContainerStatuses, sum.ContainerStatuses = nil, nil, nil
	var err error
	sum.Phase, err = phase(items, phases, corev1.PodPending, func(s *corev1.PodStatus) corev1.PodPhase {
		sum.InitContainerStatuses = append(sum.InitContainerStatuses, s.InitContainerStatuses...)
		sum.ContainerStatuses = append(sum.ContainerStatuses, s.ContainerStatuses...)
		sum.StartTime = earlier(sum.StartTime, s.StartTime)
		return s.Phase
	})
	if err != nil {
		return err
	}
	if sum.Conditions, err = conditions(p.Status.Conditions, items); err == nil {
		p.Status = sum
	}
	return err
}

// phase returns the first in an order among the phases of an object on clusters. A cluster without a
// phase has not reported yet, and counts as pending. An object on no cluster is pending too.
func phase[S any, P ~string](items []interpreter.AggregatedStatusItem, order []P, pending P, of func(*S) P) (P, error) {
	var out P
	n, err := eachStatus(items, func(_ string, s *S) { out = first(order, out, cmp.Or(of(s), pending)) })
	if n < max(1, len(items)) {
		out = first(order, out, pending)
	}
	return out, err
}

// first returns the first of two values in an order. Other values are last. The value a may be empty.
func first[T ~string](order []T, a, b T) T {
	if a == "" {
		return b
	}
	i, j := slices.Index(order, a), slices.Index(order, b)
	if i < 0 || j >= 0 && j < i {
		return b
	}
	return a
}
