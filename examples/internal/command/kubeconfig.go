// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// LoadKubeconfig reads the kubeconfig file of a flag. If file is empty, it uses the environment variable
// KUBECONFIG, the configuration of the pod, or ~/.kube/config. Errors contain advice.
func LoadKubeconfig(flag, file string) (*rest.Config, error) {
	if file != "" {
		if _, err := clientcmd.LoadFromFile(file); errors.As(err, new(*fs.PathError)) {
			return nil, fmt.Errorf("%s: %w", flag, err)
		} else if err != nil {
			return nil, fmt.Errorf("%s %s: not a kubeconfig, which is YAML with apiVersion v1 and kind Config", flag, file)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules() // the last rule is the pod's own
	rules.ExplicitPath = file
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case err == nil:
		return config, nil
	case clientcmd.IsEmptyConfig(err) && file == "":
		return nil, fmt.Errorf("no kubeconfig found: set %s or the environment variable KUBECONFIG", flag)
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("%s %s: the file has no cluster", flag, file)
	}
	return nil, fmt.Errorf("%s: %w", flag, err)
}

// CheckKubeconfig returns the error of LoadKubeconfig for a file. An empty file is no error.
func CheckKubeconfig(flag, file string) error {
	if file == "" {
		return nil
	}
	_, err := LoadKubeconfig(flag, file)
	return err
}
