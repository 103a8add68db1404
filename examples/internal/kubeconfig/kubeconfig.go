// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig finds the way to a cluster.
package kubeconfig

import (
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Load reads the file, or where that is "" what the environment variable KUBECONFIG names, the configuration of the pod
// that this runs in, or ~/.kube/config.
func Load(file string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules() // which end in the pod's own
	rules.ExplicitPath = file
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
}
