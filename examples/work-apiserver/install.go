// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"fmt"

	"github.com/spokewire/sdk-go/examples/internal/install"
)

//go:embed install
var manifests embed.FS

// installation is the command install. It does not register the API: apiservice.yaml does.
var installation = install.Program{
	Name: "work-apiserver", Manifests: manifests,
	Usage: "                       The folder /broker has the files of the Secret \"work-apiserver-broker\"\n",
	Workload: func(_ install.Options, args []string) (install.Workload, error) {
		args = install.Defaults(args, "--store=/data", "--secure-port=6443", "--tls-cert-file=/credentials/tls.crt",
			"--tls-private-key-file=/credentials/tls.key",
			"--shutdown-delay-duration=5s") // until the Service has removed the Pod
		o, err := parse(args)
		if err != nil {
			return install.Workload{}, err
		}
		address := fmt.Sprint(":", o.server.Recommended.SecureServing.BindPort)
		return install.Workload{
			Args: args, Database: o.shared(), Volume: !o.shared(), API: true, Broker: true,
			// The API server of the cluster connects from outside of the network of Pods.
			Ports: []install.Port{
				{Name: "https", Flag: "secure-port", Address: address, Service: 443, Open: true},
			},
			HTTPS: true, MetricsLogin: true, Live: "/livez", Grace: 90, // more than --request-timeout, 60 s
			Memory: "1Gi",
		}, nil
	},
}
