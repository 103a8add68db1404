// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/spokewire/sdk-go/interpreter"
)

func serviceAccount() interpreter.HandlerFor[*corev1.ServiceAccount] {
	type object = *corev1.ServiceAccount
	return interpreter.HandlerFor[object]{
		// Controllers of the cluster add the secrets of tokens and of its registry.
		Retain: func(_ context.Context, desired, observed object) error {
			desired.Secrets = union(desired.Secrets, observed.Secrets, func(r *corev1.ObjectReference) string { return r.Name })
			desired.ImagePullSecrets = union(desired.ImagePullSecrets, observed.ImagePullSecrets,
				func(r *corev1.LocalObjectReference) string { return r.Name })
			return nil
		},
		Dependencies: func(_ context.Context, a object) ([]interpreter.DependentObjectReference, error) {
			r := references{namespace: a.Namespace}
			for _, s := range a.ImagePullSecrets {
				r.add("Secret", s.Name)
			}
			return r.sorted(), nil
		},
	}
}

func secret() interpreter.HandlerFor[*corev1.Secret] {
	type object = *corev1.Secret
	return interpreter.HandlerFor[object]{
		// The cluster sets the token and the UID of its account.
		Retain: func(_ context.Context, desired, observed object) error {
			if desired.Type != corev1.SecretTypeServiceAccountToken {
				return nil
			}
			if observed.Data != nil {
				desired.Data = observed.Data
			}
			if uid, there := observed.Annotations[corev1.ServiceAccountUIDKey]; there {
				if desired.Annotations == nil {
					desired.Annotations = map[string]string{}
				}
				desired.Annotations[corev1.ServiceAccountUIDKey] = uid
			}
			return nil
		},
	}
}
