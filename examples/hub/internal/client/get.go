// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/httpapi"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/examples/internal/commands"
	"github.com/spokewire/sdk-go/examples/internal/table"
)

// kinds are the kinds of get; the first documentKinds are those of documents.
var kinds = []string{
	"applications", "clusters", "placements", "resourceinterpreterwebhookconfigurations",
	"resourceexploringwebhookconfigurations", "works", "objects", "tokens",
}

const documentKinds = 5

// kindNamed returns a kind by its plural or singular.
func kindNamed(name string) (string, error) {
	name = strings.ToLower(name)
	for _, kind := range kinds {
		if name == kind || name+"s" == kind {
			return kind, nil
		}
	}
	return "", commands.Mistake("KIND: %q: must be one of %s", name, strings.Join(kinds, ", "))
}

func (c *client) get() *cobra.Command {
	var cluster string
	cmd := command("get KIND [NAME] [--cluster CLUSTER]", "list the objects of a kind, or show one of them",
		func(ctx context.Context, args []string) error { return c.getKind(ctx, args, cluster) })
	cmd.Long = "Lists applications, clusters, placements, configurations of webhooks, tokens, or the works and objects\n" +
		"of a cluster. As json or yaml, applications and clusters are their documents: see hub status for their status."
	cmd.Flags().StringVar(&cluster, "cluster", "", "the `CLUSTER` of works and objects")
	return c.Reads(cmd, true)
}

// getKind shows the kind of the first argument, and of it only the second argument if there is one.
func (c *client) getKind(ctx context.Context, args []string, cluster string) error {
	kind, err := kindNamed(args[0])
	parts := []string{kind}
	name := ""
	if len(args) > 1 {
		name = args[1]
		parts = append(parts, name)
	}
	onCluster, form := kind == "works" || kind == "objects", c.Output.String()
	switch {
	case err != nil:
		return err
	case onCluster && cluster == "":
		return commands.Mistake("--cluster is required: the cluster of the %s", kind)
	case !onCluster && cluster != "":
		return commands.Mistake("--cluster needs the KIND works or objects")
	case onCluster:
		return show(ctx, c, path("clusters", cluster, "status"), func(of status.Cluster) (any, []table.Table) {
			return worksOf(kind, name, of.Works)
		})
	case kind == "tokens":
		return show(ctx, c, path(kind), func(all []httpapi.Token) (any, []table.Table) {
			all = named(all, name, func(t httpapi.Token) string { return t.ID })
			return all, []table.Table{tokens(all)}
		})
	case form == "json" || form == "yaml" || kind != "applications" && kind != "clusters":
		return show(ctx, c, path(parts...), documents(kind, name != ""))
	}
	return show(ctx, c, path("status"), func(hub status.Hub) (any, []table.Table) {
		list := applications(named(hub.Applications, name, func(a status.Application) string { return a.Name }))
		if kind == "clusters" {
			list = clusters(named(hub.Clusters, name, func(c status.Cluster) string { return c.Name }))
		}
		if down := hub.Down(); len(down) > 0 { // then the list may be outdated
			return nil, []table.Table{links(down), list}
		}
		return nil, []table.Table{list}
	})
}

// named returns the elements with a name, or all of them without one.
func named[T any](all []T, name string, nameOf func(T) string) []T {
	return slices.DeleteFunc(all, func(one T) bool { return name != "" && nameOf(one) != name })
}

// worksOf returns the works of a cluster, or their objects, with a name.
func worksOf(kind, name string, all []status.Work) (any, []table.Table) {
	if kind == "works" {
		all = named(all, name, func(w status.Work) string { return w.Name })
		return all, []table.Table{works(all)}
	}
	for i := range all {
		all[i].Objects = named(all[i].Objects, name, func(o status.Object) string { return o.Name })
	}
	all = slices.DeleteFunc(all, func(w status.Work) bool { return len(w.Objects) == 0 })
	return all, []table.Table{objects(all)}
}

// documents returns the view of documents of a kind: a list, or a single one.
func documents(kind string, single bool) func(json.RawMessage) (any, []table.Table) {
	return func(content json.RawMessage) (any, []table.Table) {
		list := content
		if single {
			list = fmt.Appendf(nil, "[%s]", content)
		}
		var all []document.Placement
		_ = json.Unmarshal(list, &all)
		t := placements(all)
		if kind != "placements" { // of the others, a table has only the names
			t = newTable("NAME", all, func(p document.Placement) []any { return []any{p.Metadata.Name} })
		}
		return content, []table.Table{t}
	}
}
