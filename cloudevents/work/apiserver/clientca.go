// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// readTimeout bounds a read from the cluster before the start.
const readTimeout = 10 * time.Second

// readClientCA sets the CA for client certificates to that of the cluster, if the options read it
// from there. k8s.io/apiserver would read it shortly after the start, and treat requests with a
// client certificate as anonymous until then.
func readClientCA(o *genericoptions.DelegatingAuthenticationOptions) error {
	if o == nil || o.SkipInClusterLookup || o.ClientCert != (genericoptions.ClientCertAuthenticationOptions{}) {
		return nil
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: o.RemoteKubeConfigFile}, nil).ClientConfig()
	if err != nil {
		return nil //nolint:nilerr // the options return the error, unless the cluster is optional
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	const namespace, name, key = metav1.NamespaceSystem, "extension-apiserver-authentication", "client-ca-file"
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	m, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err != nil && o.TolerateInClusterLookupFailure || err == nil && m.Data[key] == "" {
		return nil // the server looks for it again
	} else if err != nil {
		return fmt.Errorf("read the CA of clients: %w", err)
	}
	first, err := dynamiccertificates.NewStaticCAContent("client-ca", []byte(m.Data[key]))
	if err != nil {
		return fmt.Errorf("read the CA of clients from the ConfigMap %s of %s: %w", name, namespace, err)
	}
	later, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", namespace, name, key, client)
	if err != nil {
		return err
	}
	o.ClientCert.CAContentProvider = clientCA{later, first}
	return nil
}

// clientCA is a CA that a controller reads from a ConfigMap. Until it has done so, the CA is first.
type clientCA struct {
	*dynamiccertificates.ConfigMapCAController
	first dynamiccertificates.CAContentProvider
}

// CurrentCABundleContent implements [dynamiccertificates.CAContentProvider].
func (c clientCA) CurrentCABundleContent() []byte {
	if content := c.ConfigMapCAController.CurrentCABundleContent(); len(content) > 0 {
		return content
	}
	return c.first.CurrentCABundleContent()
}

// VerifyOptions implements [dynamiccertificates.CAContentProvider].
func (c clientCA) VerifyOptions() (x509.VerifyOptions, bool) {
	if options, ok := c.ConfigMapCAController.VerifyOptions(); ok {
		return options, true
	}
	return c.first.VerifyOptions()
}
