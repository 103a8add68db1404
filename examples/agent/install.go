// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/install"
)

//go:embed install
var manifests embed.FS

const installUsage = `  --role CLUSTERROLE   the role of works without an executor, for example edit or cluster-admin.
                       Either it or --executor in FLAGS is required
`

// runInstall is the command install.
func runInstall(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var role string
	p := install.Program{
		Name: "agent", Manifests: manifests, Usage: installUsage,
		Flags:    func(flags command.Flags) { flags.StringVar(&role, "role", "", "") },
		Workload: func(o install.Options, args []string) (install.Workload, error) { return workload(o, role, args) },
	}
	return p.Run(ctx, args, stdout, stderr)
}

// workload returns the Pod of an agent with flags. The works have the rights of a role or of
// executors.
func workload(i install.Options, role string, args []string) (install.Workload, error) {
	defaults := []string{"--listen=:8080"}
	if _, kube := install.Value(args, "hub-kubeconfig"); !kube {
		defaults = append(defaults, "--store=/data/works.db")
	}
	args = install.Defaults(args, defaults...)
	o, err := parse(args)
	switch {
	case err != nil:
		return install.Workload{}, err
	case o.Kubeconfig != "":
		return install.Workload{}, errors.New("--kubeconfig: the agent serves the cluster of its Pod: remove the flag")
	case role == "" && len(o.Spoke.Executors) == 0:
		return install.Workload{}, errors.New("works without an executor have the rights of the agent: add --executor " +
			"NAMESPACE/NAME for each service account that works may have as executor, or --role CLUSTERROLE before --")
	case role != "" && len(o.Spoke.Executors) > 0:
		return install.Workload{}, errors.New("the agent refuses works without an executor: remove --role, or --executor " +
			"and --require-executor")
	}
	crd, err := yaml.Marshal(v1alpha1.CRD())
	if err != nil {
		return install.Workload{}, err
	}
	own := i.Namespace + "-agent"
	return install.Workload{
		Args: args, Ports: []install.Port{{Name: "http", Flag: "listen", Address: o.Listen}},
		Live: "/healthz", Grace: 30, Memory: "512Mi", Volume: o.Store != "", API: true,
		Values: struct {
			CRD, Role, Bound string
			Executors        []impersonation
		}{string(crd), own, role, impersonations(own+"-executors", o.Spoke.Executors)},
	}, nil
}

// impersonation is a role that allows the agent to impersonate service accounts.
type impersonation struct {
	Role      string
	Namespace string   // empty for all namespaces
	Names     []string // empty for all names
}

// impersonations returns the roles for patterns NAMESPACE/NAME. RBAC has no patterns: a pattern for
// namespaces allows all namespaces, and a pattern for names allows all names. The agent checks the
// patterns.
func impersonations(role string, patterns []string) []impersonation {
	var all []impersonation
	for _, pattern := range patterns {
		namespace, name, _ := strings.Cut(pattern, "/")
		next := impersonation{Role: role, Namespace: namespace, Names: []string{name}}
		if isPattern(namespace) {
			next.Namespace = ""
		}
		if isPattern(name) {
			next.Names = nil
		}
		same := func(i impersonation) bool { return i.Namespace == next.Namespace }
		switch i := slices.IndexFunc(all, same); {
		case i < 0:
			all = append(all, next)
		case next.Names == nil || all[i].Names == nil:
			all[i].Names = nil
		case !slices.Contains(all[i].Names, name):
			all[i].Names = append(all[i].Names, name)
		}
	}
	slices.SortFunc(all, func(a, b impersonation) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return all
}

func isPattern(s string) bool { return strings.ContainsAny(s, `*?[\`) }
