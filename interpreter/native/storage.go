// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/spokewire/sdk-go/interpreter"
)

// The phases of volumes and claims, the most important first.
var (
	volumePhases = []corev1.PersistentVolumePhase{
		corev1.VolumeFailed, corev1.VolumePending, corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased,
	}
	claimPhases = []corev1.PersistentVolumeClaimPhase{corev1.ClaimLost, corev1.ClaimPending, corev1.ClaimBound}
)

func persistentVolume() interpreter.HandlerFor[*corev1.PersistentVolume] {
	type object = *corev1.PersistentVolume
	return interpreter.HandlerFor[object]{
		// The claim is bound by the cluster.
		Retain: func(_ context.Context, desired, observed object) error {
			if observed.Spec.ClaimRef != nil {
				desired.Spec.ClaimRef = observed.Spec.ClaimRef
			}
			return nil
		},
		Aggregate: func(_ context.Context, v object, items []interpreter.AggregatedStatusItem) error {
			var err error
			v.Status.Phase, err = phase(items, volumePhases, corev1.VolumePending,
				func(s *corev1.PersistentVolumeStatus) corev1.PersistentVolumePhase { return s.Phase })
			return err
		},
		// A volume is usable while it is bound or available.
		Health: func(_ context.Context, v object) (bool, error) {
			return v.Status.Phase == corev1.VolumeBound || v.Status.Phase == corev1.VolumeAvailable, nil
		},
	}
}

func persistentVolumeClaim() interpreter.HandlerFor[*corev1.PersistentVolumeClaim] {
	type object = *corev1.PersistentVolumeClaim
	return interpreter.HandlerFor[object]{
		// The binding on the cluster is final: the API server rejects another volume.
		Retain: func(_ context.Context, desired, observed object) error {
			desired.Spec.VolumeName = cmp.Or(observed.Spec.VolumeName, desired.Spec.VolumeName)
			return nil
		},
		Aggregate: func(_ context.Context, c object, items []interpreter.AggregatedStatusItem) error {
			var err error
			c.Status.Phase, err = phase(items, claimPhases, corev1.ClaimPending,
				func(s *corev1.PersistentVolumeClaimStatus) corev1.PersistentVolumeClaimPhase { return s.Phase })
			if err != nil {
				return err
			}
			c.Status.Conditions, err = conditions(c.Status.Conditions, items)
			return err
		},
		Health: func(_ context.Context, c object) (bool, error) { return c.Status.Phase == corev1.ClaimBound, nil },
	}
}
