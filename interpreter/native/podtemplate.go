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

// Requirements returns the requirements of each pod of a template, in a namespace.
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
// pod, sorted and without duplicates. The ServiceAccount called default is omitted: every namespace
// has it.
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
	claim := &v1alpha1.NodeClaim{NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations}
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil {
		claim.HardNodeAffinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
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

// add adds a reference. It ignores references without a name.
func (r *references) add(kind, name string) {
	if name != "" {
		r.list = append(r.list, interpreter.DependentObjectReference{
			APIVersion: "v1", Kind: kind, Namespace: r.namespace, Name: name,
		})
	}
}

// sorted returns the references, sorted and without duplicates.
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
		v := env[i].ValueFrom
		if v == nil {
			continue
		}
		if v.ConfigMapKeyRef != nil {
			r.add("ConfigMap", v.ConfigMapKeyRef.Name)
		}
		if v.SecretKeyRef != nil {
			r.add("Secret", v.SecretKeyRef.Name)
		}
	}
	for i := range from {
		if c := from[i].ConfigMapRef; c != nil {
			r.add("ConfigMap", c.Name)
		}
		if s := from[i].SecretRef; s != nil {
			r.add("Secret", s.Name)
		}
	}
}

func (r *references) volume(v *corev1.Volume) {
	if v.ConfigMap != nil {
		r.add("ConfigMap", v.ConfigMap.Name)
	}
	if v.Secret != nil {
		r.add("Secret", v.Secret.SecretName)
	}
	if v.PersistentVolumeClaim != nil {
		r.add("PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName)
	}
	if v.Projected != nil {
		for i := range v.Projected.Sources {
			s := &v.Projected.Sources[i]
			if s.ConfigMap != nil {
				r.add("ConfigMap", s.ConfigMap.Name)
			}
			if s.Secret != nil {
				r.add("Secret", s.Secret.Name)
			}
		}
	}
	if v.AzureFile != nil {
		r.add("Secret", v.AzureFile.SecretName)
	}
	for _, s := range driverSecrets(v) {
		if s != nil {
			r.add("Secret", s.Name)
		}
	}
}

// driverSecrets returns the secrets of volume drivers. Elements may be nil.
func driverSecrets(v *corev1.Volume) []*corev1.LocalObjectReference {
	var out []*corev1.LocalObjectReference
	if v.CSI != nil {
		out = append(out, v.CSI.NodePublishSecretRef)
	}
	if v.CephFS != nil {
		out = append(out, v.CephFS.SecretRef)
	}
	if v.Cinder != nil {
		out = append(out, v.Cinder.SecretRef)
	}
	if v.FlexVolume != nil {
		out = append(out, v.FlexVolume.SecretRef)
	}
	if v.ISCSI != nil {
		out = append(out, v.ISCSI.SecretRef)
	}
	if v.RBD != nil {
		out = append(out, v.RBD.SecretRef)
	}
	if v.ScaleIO != nil {
		out = append(out, v.ScaleIO.SecretRef)
	}
	if v.StorageOS != nil {
		out = append(out, v.StorageOS.SecretRef)
	}
	return out
}
