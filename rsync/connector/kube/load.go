// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

// maxKubeconfig limits a kubeconfig file, in bytes.
const maxKubeconfig = 1 << 20

// Directory returns a Loader that reads dir/NAME.kubeconfig, with its current context, for a
// cluster provider+NAME. It finds new files.
func Directory(dir string) Loader {
	return func(_ context.Context, cluster appcontext.ClusterID) (*rest.Config, error) {
		name := cluster.Name
		if name == "" || name[0] == '.' || strings.ContainsAny(name, "/\\\x00") {
			return nil, driver.Terminal("the cluster's name %q cannot be that of a file", name)
		}
		return loadFile(filepath.Join(dir, name+".kubeconfig"), "")
	}
}

// load returns a new copy of the configuration.
func (c Cluster) load(ctx context.Context, id appcontext.ClusterID) (*rest.Config, error) {
	switch {
	case c.Config != nil:
		return rest.CopyConfig(c.Config), nil
	case c.Kubeconfig != "":
		return loadFile(c.Kubeconfig, c.Context)
	}
	config, err := c.Load(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case config == nil:
		return nil, driver.Terminal("Load returned no configuration")
	}
	return rest.CopyConfig(config), nil
}

// loadFile reads a kubeconfig. client-go's error for an invalid file may quote secrets.
func loadFile(file, name string) (*rest.Config, error) {
	content, err := readFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, driver.Terminal("the kubeconfig %s does not exist", file)
	case errors.Is(err, fs.ErrPermission):
		return nil, driver.Terminal("the kubeconfig %s may not be read: check its permissions", file)
	case err != nil:
		return nil, &connector.Error{Class: connector.ErrRetryable, Err: fmt.Errorf("the kubeconfig: %w", err)}
	}
	if len(content) > maxKubeconfig {
		return nil, driver.Terminal("the kubeconfig %s has more than %d bytes", file, maxKubeconfig)
	}
	kubeconfig, err := clientcmd.Load(content)
	if err != nil {
		return nil, driver.Terminal("the file %s is not a kubeconfig", file)
	}
	if name == "" {
		name = kubeconfig.CurrentContext
	}
	if err := checkContext(kubeconfig, file, name); err != nil {
		return nil, err
	}
	for _, part := range kubeconfig.Clusters {
		part.LocationOfOrigin = file
	}
	for _, part := range kubeconfig.AuthInfos {
		part.LocationOfOrigin = file
	}
	if err := clientcmd.ResolveLocalPaths(kubeconfig); err != nil {
		return nil, driver.Terminal("the kubeconfig %s has paths that cannot be resolved", file)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*kubeconfig, name, &clientcmd.ConfigOverrides{}, nil).
		ClientConfig()
	if err != nil {
		return nil, driver.Terminal("the kubeconfig %s, context %q, is not valid: check its cluster and its user, and the "+
			"files that they name", file, name)
	}
	if config.ExecProvider == nil && config.AuthProvider == nil {
		if _, err := rest.TLSConfigFor(config); err != nil {
			return nil, &connector.Error{Class: classOfTLS(config),
				Err: fmt.Errorf("the kubeconfig %s, context %q, has a certificate, key or CA that cannot be read or "+
					"does not match", file, name)}
		}
	}
	return config, nil
}

// classOfTLS returns the class of an error of certificates. Files may be replaced.
func classOfTLS(config *rest.Config) error {
	if config.CertFile != "" || config.KeyFile != "" || config.CAFile != "" {
		return connector.ErrRetryable
	}
	return connector.ErrTerminal
}

// readFile reads at most one byte more than maxKubeconfig.
func readFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was read only
	return io.ReadAll(io.LimitReader(f, maxKubeconfig+1))
}

func checkContext(kubeconfig *clientcmdapi.Config, file, name string) error {
	if name == "" {
		return driver.Terminal("the kubeconfig %s has no current context: set Cluster.Context", file)
	}
	at := kubeconfig.Contexts[name]
	switch {
	case at == nil:
		return driver.Terminal("the kubeconfig %s has no context %q", file, name)
	case kubeconfig.Clusters[at.Cluster] == nil:
		return driver.Terminal("the kubeconfig %s, context %q: there is no cluster %q", file, name, at.Cluster)
	case at.AuthInfo != "" && kubeconfig.AuthInfos[at.AuthInfo] == nil:
		return driver.Terminal("the kubeconfig %s, context %q: there is no user %q", file, name, at.AuthInfo)
	}
	return nil
}
