// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"errors"
	"fmt"

	"github.com/spokewire/sdk-go/examples/internal/install"
)

//go:embed install
var manifests embed.FS

// installation is the command install.
var installation = install.Program{Name: "hub", Manifests: manifests, Workload: workload}

// workload returns the Pods of a hub with flags.
func workload(i install.Options, args []string) (install.Workload, error) {
	args = install.Defaults(args, "--listen=:8080", "--allowed-host=hub."+i.Namespace+".svc", "--store=/data",
		"--token-auth-file=/credentials/tokens.csv")
	if _, given := install.Value(args, "certs"); !given {
		args = install.Defaults(args, "--tls-cert=/credentials/tls.crt", "--tls-key=/credentials/tls.key")
	}
	o, err := parse(args)
	switch {
	case err != nil:
		return install.Workload{}, err
	case o.Kubeconfig != "" && o.Kubeconfig != autoKubeconfig:
		return install.Workload{}, errors.New("--kubeconfig must be auto: the hub's own cluster is that of its Pod")
	case o.shared():
		args = install.Defaults(args, "--advertise=https://$(POD_IP)"+o.Listen) // Kubernetes expands it
	}
	w := install.Workload{
		Args: args, Ports: []install.Port{{Name: "https", Flag: "listen", Address: o.Listen}},
		HTTPS: true, Live: "/healthz", Grace: 30, Database: o.shared(), Volume: !o.shared(), API: o.Kubeconfig != "",
		Memory: fmt.Sprint(2*(memoryLimit+2*o.MaxMemory), "Mi"), // twice the soft limit
	}
	if o.GRPC != "" {
		w.Ports = append(w.Ports, install.Port{Name: "grpc", Flag: "grpc", Address: o.GRPC, Open: true})
	}
	if o.JoinListen != "" {
		w.Ports = append(w.Ports, install.Port{Name: "join", Flag: "join-listen", Address: o.JoinListen, Open: true})
	}
	return w, nil
}
