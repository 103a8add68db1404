// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"errors"
	"net"
	"strconv"

	"github.com/spokewire/sdk-go/examples/hub/internal/objects"
	"github.com/spokewire/sdk-go/examples/internal/install"
)

//go:embed install
var manifests embed.FS

// installation is the command install.
var installation = install.Program{Name: "hub", Manifests: manifests, Workload: workload}

// workload returns the Pods of a hub with flags.
func workload(i install.Options, args []string) (install.Workload, error) {
	defaults := []string{"--listen=:8080", "--allowed-host=hub." + i.Namespace + ".svc", "--store=/data"}
	args = install.Defaults(args, defaults...)
	o, err := parse(args)
	if err != nil {
		return install.Workload{}, err
	}
	if o.shared() {
		args = install.Defaults(args, "--advertise=http://$(POD_IP):8080") // Kubernetes expands it
	}
	if o.Kubeconfig != "" && o.Kubeconfig != objects.Auto {
		return install.Workload{}, errors.New("--kubeconfig must be auto: the hub's own cluster is that of its Pod")
	}
	w := install.Workload{
		Args: args, Ports: []install.Port{{Name: "http", Number: 8080}}, Live: "/healthz", Grace: 30, Memory: "512Mi",
		Database: o.shared(), Volume: !o.shared(), API: o.Kubeconfig != "",
	}
	if o.GRPC != "" {
		_, text, _ := net.SplitHostPort(o.GRPC) // parse has checked it
		number, err := strconv.Atoi(text)
		if err != nil {
			return install.Workload{}, errors.New("--grpc must end with the number of a port")
		}
		w.Ports = append(w.Ports, install.Port{Name: "grpc", Number: number, Open: true})
	}
	return w, nil
}
