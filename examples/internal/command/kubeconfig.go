// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// LoadKubeconfig reads a kubeconfig file. If file is empty, it uses the environment variable KUBECONFIG, the
// configuration of the pod, or ~/.kube/config. Errors contain advice.
func LoadKubeconfig(file string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules() // the last rule is the pod's own
	rules.ExplicitPath = file
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case err == nil:
		return config, nil
	case clientcmd.IsEmptyConfig(err) && file == "":
		return nil, errors.New("no kubeconfig found: set --kubeconfig or the environment variable KUBECONFIG")
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("kubeconfig %s has no cluster", file)
	}
	return nil, fmt.Errorf("kubeconfig: %w", err)
}
