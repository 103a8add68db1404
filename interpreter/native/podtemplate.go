// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// Requirements returns the requirements of each pod of a template, with the namespace of the pod.
func Requirements(spec *corev1.PodSpec, namespace string) *interpreter.ReplicaRequirements {
	r := &interpreter.ReplicaRequirements{
		Namespace: namespace, PriorityClassName: spec.PriorityClassName, NodeClaim: nodeClaim(spec),
	}
	if requests := PodRequests(spec); len(requests) > 0 {
		r.ResourceRequest = requests
	}
	return r
}

// Dependencies returns the ConfigMaps, Secrets, PersistentVolumeClaims and the ServiceAccount of a
// pod, sorted and without duplicates. It omits the ServiceAccount default of every namespace.
func Dependencies(spec *corev1.PodSpec, namespace string) []interpreter.DependentObjectReference {
	r := references{namespace: namespace}
	for i := range spec.Volumes {
		r.volume(&spec.Volumes[i])
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			r.container(list[i].Env, list[i].EnvFrom)
		}
	}
	for i := range spec.EphemeralContainers {
		r.container(spec.EphemeralContainers[i].Env, spec.EphemeralContainers[i].EnvFrom)
	}
	for _, s := range spec.ImagePullSecrets {
		r.add("Secret", s.Name)
	}
	if account := cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount); account != "default" {
		r.add("ServiceAccount", account)
	}
	return r.sorted()
}

func nodeClaim(spec *corev1.PodSpec) *v1alpha1.NodeClaim {
	affinity := deref(deref(spec.Affinity).NodeAffinity)
	claim := &v1alpha1.NodeClaim{
		HardNodeAffinity: affinity.RequiredDuringSchedulingIgnoredDuringExecution,
		NodeSelector:     spec.NodeSelector, Tolerations: spec.Tolerations,
	}
	if claim.HardNodeAffinity == nil && len(claim.NodeSelector) == 0 && len(claim.Tolerations) == 0 {
		return nil
	}
	return claim
}

// references collects the names of objects in one namespace.
type references struct {
	namespace string
	list      []interpreter.DependentObjectReference
}

// add ignores references without a name.
func (r *references) add(kind, name string) {
	if name != "" {
		r.list = append(r.list, interpreter.DependentObjectReference{
			APIVersion: "v1", Kind: kind, Namespace: r.namespace, Name: name,
		})
	}
}

// sorted removes duplicates.
func (r *references) sorted() []interpreter.DependentObjectReference {
	compare := func(a, b interpreter.DependentObjectReference) int {
		return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}
	slices.SortFunc(r.list, compare)
	return slices.CompactFunc(r.list, func(a, b interpreter.DependentObjectReference) bool { return compare(a, b) == 0 })
}

func (r *references) container(env []corev1.EnvVar, from []corev1.EnvFromSource) {
	for i := range env {
		source := deref(env[i].ValueFrom)
		r.add("ConfigMap", deref(source.ConfigMapKeyRef).Name)
		r.add("Secret", deref(source.SecretKeyRef).Name)
	}
	for i := range from {
		r.add("ConfigMap", deref(from[i].ConfigMapRef).Name)
		r.add("Secret", deref(from[i].SecretRef).Name)
	}
}

func (r *references) volume(v *corev1.Volume) {
	r.add("ConfigMap", deref(v.ConfigMap).Name)
	r.add("Secret", deref(v.Secret).SecretName)
	r.add("PersistentVolumeClaim", deref(v.PersistentVolumeClaim).ClaimName)
	sources := deref(v.Projected).Sources
	for i := range sources {
		r.add("ConfigMap", deref(sources[i].ConfigMap).Name)
		r.add("Secret", deref(sources[i].Secret).Name)
	}
	r.add("Secret", deref(v.AzureFile).SecretName)
	for _, secret := range []*corev1.LocalObjectReference{
		deref(v.CSI).NodePublishSecretRef, deref(v.CephFS).SecretRef, deref(v.Cinder).SecretRef,
		deref(v.FlexVolume).SecretRef, deref(v.ISCSI).SecretRef, deref(v.RBD).SecretRef,
		deref(v.ScaleIO).SecretRef, deref(v.StorageOS).SecretRef,
	} {
		r.add("Secret", deref(secret).Name)
	}
}
