// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package client has the commands that call the API of a running hub. README.md of examples/hub
// describes them.
package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/httpapi"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/examples/internal/apiclient"
	"github.com/spokewire/sdk-go/examples/internal/backup"
	"github.com/spokewire/sdk-go/examples/internal/commands"
	"github.com/spokewire/sdk-go/examples/internal/folderwatch"
	"github.com/spokewire/sdk-go/examples/internal/table"
	"github.com/spokewire/sdk-go/internal/atomicfile"
)

// client calls the API.
type client struct{ *apiclient.Client }

// command is a command with the function that runs it.
func command(use, short string, run func(ctx context.Context, args []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, RunE: func(cmd *cobra.Command, args []string) error {
		return run(cmd.Context(), args)
	}}
}

// Run runs the command that the arguments name: one of this package, or one of the others. It returns
// the exit status.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, others ...*cobra.Command) int {
	c := &client{apiclient.New("hub", "hub-data/admin.token", stdout)}
	root := &cobra.Command{Use: "hub", Short: "Runs applications on clusters: hub --help describes how to start it, " +
		"and these commands call a running hub"}
	own := []*cobra.Command{
		c.Reads(command("status [APPLICATION]", "show applications and clusters, or one application", c.status), true),
		c.get(), c.diff(), c.apply(),
		command("delete KIND NAME", "delete a document", c.remove),
		c.Reads(command("history [APPLICATION]", "list revisions, the newest first", c.history), true),
		c.rollback(), c.approve(),
		command("pause APPLICATION", "start no further cluster of a rollout", c.post("application", "paused")),
		command("resume APPLICATION", "end a pause, or start a failed or aborted rollout again",
			c.post("application", "resumed")),
		command("abort APPLICATION", "end a rollout; with rollbackOnFailure it is rolled back",
			c.post("application", "aborted")),
		command("complete", "declare that the documents of all applications exist", c.complete),
		c.tokens(), c.backup(),
		command("revoke CLUSTER", "refuse the certificates of a cluster, and end its connections",
			c.post("cluster", "revoked")),
		command("forget CLUSTER", "stop waiting for a removed cluster that will not return",
			c.post("cluster", "forgotten")),
	}
	for _, cmd := range own {
		for _, leaf := range append(cmd.Commands(), cmd) {
			c.AddFlags(leaf.Flags())
		}
	}
	root.AddCommand(append(own, others...)...)
	return commands.Run(ctx, root, c.values, args, stdout, stderr)
}

func show[T any](ctx context.Context, c *client, path string, view func(T) (any, []table.Table)) error {
	return apiclient.Show(ctx, c.Client, path, view)
}

// path returns the path of a request, with escaped parts.
func path(parts ...string) string {
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return "/api/v1/" + strings.Join(parts, "/")
}

// verbs are the last parts of paths, by the past form of what they do.
var verbs = map[string]string{
	"paused": "pause", "resumed": "resume", "aborted": "abort", "revoked": "revoke", "forgotten": "forget",
}

// post returns a command that requests something for an application or a cluster.
func (c *client) post(kind, done string) func(context.Context, []string) error {
	return func(ctx context.Context, args []string) error {
		var out status.Revocation
		err := c.Load(ctx, http.MethodPost, path(kind+"s", args[0], verbs[done]), nil, &out)
		if err == nil {
			_, err = fmt.Fprintln(c.Out, strings.TrimSuffix(resource(kind, args[0])+" "+done+"; "+out.Note, "; "))
		}
		return err
	}
}

func (c *client) status(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return show(ctx, c, path("status"), func(hub status.Hub) (any, []table.Table) { return hub, overview(hub) })
	}
	return show(ctx, c, path("applications", args[0], "status"), func(a status.Application) (any, []table.Table) {
		return a, details(a)
	})
}

func (c *client) history(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return show(ctx, c, path("history"), func(all []status.Revision) (any, []table.Table) {
			return all, []table.Table{revisions(all)}
		})
	}
	return show(ctx, c, path("applications", args[0], "status"), func(a status.Application) (any, []table.Table) {
		return a.Revisions, []table.Table{revisions(a.Revisions)}
	})
}

func (c *client) complete(ctx context.Context, _ []string) error {
	return c.Do(ctx, http.MethodPost, path("complete"), nil, "complete")
}

func (c *client) remove(ctx context.Context, args []string) error {
	kind, err := kindNamed(args[0])
	if err != nil {
		return err
	}
	if !slices.Contains(kinds[:documentKinds], kind) {
		return commands.Mistake("KIND: %q: must be one of %s", args[0], strings.Join(kinds[:documentKinds], ", "))
	}
	done := resource(strings.TrimSuffix(kind, "s"), args[1]) + " deleted"
	return c.Do(ctx, http.MethodDelete, path(kind, args[1]), nil, done)
}

func (c *client) rollback() *cobra.Command {
	var to int
	var end bool
	cmd := command("rollback APPLICATION [--to N|--end]", "roll back to the previous revision, and hold it",
		func(ctx context.Context, args []string) error {
			at, body := path("applications", args[0], "rollback"), any(nil)
			switch {
			case end && to != 0:
				return commands.Mistake("--to and --end are both set: remove one of them")
			case end:
				return c.Do(ctx, http.MethodDelete, at, nil, resource("application", args[0])+" follows its document again")
			case to < 0:
				return commands.Mistake("--to: %d: must be the number of a revision: see hub history", to)
			case to > 0:
				body = map[string]int{"revision": to}
			}
			var out status.RolledBack
			err := c.Load(ctx, http.MethodPost, at, body, &out)
			if err == nil {
				text := fmt.Sprintf("%s rolled back to revision %d; %s", resource("application", args[0]), out.Revision, out.Note)
				_, err = fmt.Fprintln(c.Out, strings.TrimSuffix(table.Plain(text), "; "))
			}
			return err
		})
	cmd.Flags().IntVar(&to, "to", 0, "roll back to the revision `N`")
	cmd.Flags().BoolVar(&end, "end", false, "end a rollback: roll the document out again")
	return cmd
}

func (c *client) approve() *cobra.Command {
	var group string
	gate := commands.NewEnum("Before", "After")
	cmd := command("approve APPLICATION --group GROUP --gate Before|After", "open a gate of a rollout",
		func(ctx context.Context, args []string) error {
			body := map[string]string{"group": group, "gate": gate.String()}
			done := fmt.Sprintf("%s approved: %s the group %s", resource("application", args[0]),
				strings.ToLower(gate.String()), group)
			return c.Do(ctx, http.MethodPost, path("applications", args[0], "approve"), body, done)
		})
	cmd.Flags().StringVar(&group, "group", "", "the `GROUP` of the rollout")
	cmd.Flags().Var(gate, "gate", "the gate of the group")
	return cmd
}

func (c *client) diff() *cobra.Command {
	var from, to int
	var file string
	cmd := command("diff [APPLICATION] [--from N --to M] [--file FILE|DIR]",
		"show what differs between two revisions, or what documents would change",
		func(ctx context.Context, args []string) error {
			switch {
			case (file == "") == (len(args) == 0):
				return commands.Mistake("either APPLICATION or --file is required")
			case file != "" && (from != 0 || to != 0):
				return commands.Mistake("--from and --to need APPLICATION")
			case file == "":
				return c.diffRevisions(ctx, args[0], from, to)
			}
			var plan status.Plan
			if err := c.sendDocuments(ctx, "diff", file, &plan); err != nil {
				return err
			}
			return c.Print(plan, func() error { return writePlan(c.Out, &plan) })
		})
	cmd.Long = "Shows the fields that differ between two revisions of an application: the newest and the one before,\n" +
		"unless --from and --to are set. With --file, shows what hub apply would change in documents and in\n" +
		"objects on clusters, and changes nothing."
	cmd.Flags().IntVar(&from, "from", 0, "the earlier revision `N`")
	cmd.Flags().IntVar(&to, "to", 0, "the later revision `M`")
	addFile(cmd, &file)
	return c.Reads(cmd, false)
}

func (c *client) diffRevisions(ctx context.Context, name string, from, to int) error {
	if from < 0 || to < 0 {
		return commands.Mistake("--from and --to must be numbers of revisions: see hub history")
	}
	if from == 0 || to == 0 {
		var a status.Application
		if err := c.Load(ctx, http.MethodGet, path("applications", name, "status"), nil, &a); err != nil {
			return err
		}
		for _, r := range a.Revisions { // the newest first
			if to == 0 && r.Number != from {
				to = r.Number
			}
			if from == 0 && r.Number < to {
				from = r.Number
			}
		}
		if from == 0 || to == 0 {
			return fmt.Errorf("%s has no two revisions: see hub history", resource("application", name))
		}
	}
	changes := []status.Change{}
	at := fmt.Sprintf("%s?from=%d&to=%d", path("applications", name, "diff"), from, to)
	if err := c.Load(ctx, http.MethodGet, at, nil, &changes); err != nil {
		return err
	}
	return c.Print(changes, func() error {
		writeChanges(c.Out, changes)
		return nil
	})
}

func (c *client) apply() *cobra.Command {
	var file string
	cmd := command("apply --file FILE|DIR", "create or change documents atomically",
		func(ctx context.Context, _ []string) error {
			var changes []status.DocumentChange
			err := c.sendDocuments(ctx, "apply", file, &changes)
			for _, d := range changes {
				fmt.Fprintln(c.Out, resource(d.Kind, d.Name), table.Plain(string(d.Action)))
			}
			return err
		})
	addFile(cmd, &file)
	return cmd
}

func addFile(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "file", "f", "", "the documents in `FILE`, a file, a folder, or - for standard input")
}

// sendDocuments sends the documents of a file or folder.
func (c *client) sendDocuments(ctx context.Context, verb, file string, into any) error {
	documents, err := read(file)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	for _, d := range documents {
		fmt.Fprintf(&body, "---\n%s\n", d.JSON)
	}
	if body.Len() > document.MaxBytes {
		return fmt.Errorf("--file %s: %d bytes are more than a request may have, %d: use several files",
			file, body.Len(), document.MaxBytes)
	}
	return c.Load(ctx, http.MethodPost, path(verb), body.Bytes(), into)
}

// read reads and checks the documents of a file or folder. Errors name the file.
func read(file string) (out []*document.Document, err error) {
	in, name, info := os.Stdin, "standard input", os.FileInfo(nil)
	if file != "-" {
		if in, err = os.Open(file); err == nil {
			defer func() { _ = in.Close() }()
			name = file
			info, err = in.Stat()
		}
	}
	var data []byte
	switch {
	case err != nil:
	case info != nil && info.IsDir():
		set, err := document.ReadFolder(file)
		if err != nil {
			return nil, err
		}
		for _, kind := range document.Kinds() {
			out = append(out, set.Documents(kind)...)
		}
	default:
		if data, err = io.ReadAll(io.LimitReader(in, folderwatch.MaxFile+1)); len(data) > folderwatch.MaxFile {
			err = fmt.Errorf("%s has more than %d bytes", name, folderwatch.MaxFile)
		}
	}
	if err != nil {
		return nil, commands.Mistake("--file: %w", err)
	}
	if data != nil {
		if out, err = document.Decode(data, file); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("--file %s: there are no documents", file)
	}
	return out, nil
}

func (c *client) tokens() *cobra.Command {
	group := &cobra.Command{Use: "token", Short: "create, list or delete tokens that let agents join"}
	body := httpapi.TokenRequest{}
	var lifetime time.Duration
	create := command("create --cluster CLUSTER", "create a token, and print the command for the cluster",
		func(ctx context.Context, _ []string) error {
			if lifetime != 0 {
				body.Lifetime = lifetime.String()
			}
			var t httpapi.Token
			if err := c.Load(ctx, http.MethodPost, path("tokens"), body, &t); err != nil {
				return err
			}
			secret := table.Plain(t.Token)
			_, err := fmt.Fprintf(c.Out, "%s\n\nOn the cluster, before %s:\n\n  agent join --hub %s --token %s\n",
				secret, t.Expires.UTC().Format(time.RFC3339), table.Plain(t.URL), secret)
			return err
		})
	create.Long = "Creates a token that lets an agent join, with a hub that runs with --join-listen. Prints the secret\n" +
		"of the token, which cannot be shown again, and the command for the cluster."
	create.Flags().StringVar(&body.Cluster, "cluster", "", "the `CLUSTER` that may join with the token")
	create.Flags().DurationVar(&lifetime, "lifetime", 0, "how long the token is valid (default 1h, at most 720h)")
	create.Flags().IntVar(&body.Uses, "uses", 1, "how many agents may join with the token")
	group.AddCommand(create,
		c.Reads(command("list", "list the tokens, without their secrets", func(ctx context.Context, _ []string) error {
			return c.getKind(ctx, []string{"tokens"}, "")
		}), false),
		command("delete TOKEN", "delete the token with an ID", func(ctx context.Context, args []string) error {
			return c.Do(ctx, http.MethodDelete, path("tokens", args[0]), nil, resource("token", args[0])+" deleted")
		}))
	return group
}

func (c *client) backup() *cobra.Command {
	file := ""
	cmd := command("backup --out FILE", "write a backup of the store to a file",
		func(ctx context.Context, _ []string) error {
			var content []byte
			if err := c.Load(ctx, http.MethodPost, path("backup"), nil, &content); err != nil {
				return err
			}
			if _, err := backup.Read(bytes.NewReader(content), nil); err != nil {
				return fmt.Errorf("the backup of the hub: %w", err)
			}
			if err := atomicfile.Write(file, content, 0o600); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			_, err := fmt.Fprintln(c.Out, "created", file)
			return err
		})
	cmd.Long = `Writes a backup of the store of the hub to a file: documents, revisions, works and tokens. Only its
owner may read the file, because it has Secrets. Replaces an existing file when the backup is
complete. Back up the folder of --certs too: it is not in the file.`
	cmd.Flags().StringVar(&file, "out", "", "the `FILE` of the backup")
	return cmd
}

// values returns the values of an argument or a flag, for shells. Errors complete nothing.
func (c *client) values(cmd *cobra.Command, name string, before []string) []string {
	ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
	defer cancel()
	switch {
	case name == "KIND":
		all := kinds
		if cmd.Name() == "delete" {
			all = all[:documentKinds]
		}
		return slices.Clone(all)
	case name == "NAME":
		name = before[0]
	case name == "TOKEN":
		name = "tokens"
	case strings.HasPrefix(name, "--") && name != "--cluster":
		return c.groups(ctx, name, before)
	}
	kind, err := kindNamed(strings.ToLower(strings.TrimPrefix(name, "--")))
	if err != nil {
		return nil
	}
	if kind == "tokens" {
		var all []httpapi.Token
		_ = c.Load(ctx, http.MethodGet, path(kind), nil, &all)
		return names(all, func(t httpapi.Token) string { return t.ID })
	}
	if kind == "clusters" { // also those without a document
		var all status.Hub
		_ = c.Load(ctx, http.MethodGet, path("status"), nil, &all)
		return names(all.Clusters, func(c status.Cluster) string { return c.Name })
	}
	var all []document.Header
	_ = c.Load(ctx, http.MethodGet, path(kind), nil, &all)
	return names(all, func(h document.Header) string { return h.Metadata.Name })
}

// groups returns the groups of a rollout, for --group, or the revisions, for --from and --to.
func (c *client) groups(ctx context.Context, flag string, before []string) (out []string) {
	var a status.Application
	if len(before) == 0 || c.Load(ctx, http.MethodGet, path("applications", before[0], "status"), nil, &a) != nil {
		return nil
	}
	switch flag {
	case "--group":
		if a.Rollout != nil {
			out = names(a.Rollout.Groups, func(g status.RolloutGroup) string { return g.Name })
		}
	case "--from", "--to":
		out = names(a.Revisions, func(r status.Revision) string { return fmt.Sprint(r.Number) })
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == "" })
}

func names[T any](all []T, name func(T) string) (out []string) {
	for _, one := range all {
		out = append(out, name(one))
	}
	return out
}
