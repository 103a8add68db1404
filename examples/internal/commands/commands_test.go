// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/spokewire/sdk-go/examples/internal/commands"
)

// program runs a program with some commands.
func program(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	root := &cobra.Command{Use: "shop", Short: "Sells"}
	gate := commands.NewEnum("Before", "After")
	var group string
	var to int
	approve := &cobra.Command{Use: "approve NAME --group GROUP [--gate Before|After] [--to N]", Short: "open a gate",
		RunE: func(cmd *cobra.Command, args []string) error {
			if to < 0 {
				return commands.Mistake("--to: %d: must not be negative", to)
			}
			fmt.Fprintln(cmd.OutOrStdout(), args[0], group, gate, to)
			return nil
		}}
	approve.Flags().StringVar(&group, "group", "", "the `GROUP` to approve")
	approve.Flags().Var(gate, "gate", "the gate")
	approve.Flags().IntVar(&to, "to", 0, "the number")
	token := &cobra.Command{Use: "token", Short: "tokens"}
	fail := func(*cobra.Command, []string) error { return errors.New("out of stock") }
	token.AddCommand(&cobra.Command{Use: "create", Short: "create one", RunE: fail},
		&cobra.Command{Use: "delete NAME", Short: "delete one", RunE: fail})
	root.AddCommand(approve, token, commands.Of("old", "an old command",
		func(_ context.Context, args []string, stdout, _ io.Writer) int {
			fmt.Fprintln(stdout, args)
			return len(args)
		}))
	complete := func(_ *cobra.Command, name string, before []string) []string { return append(before, name) }
	var out, problem bytes.Buffer
	status = commands.Run(t.Context(), root, complete, args, &out, &problem)
	return status, out.String(), problem.String()
}

func TestMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"sell":                                "shop: unknown command \"sell\": shop help lists the commands",
		"token":                               "shop token: must be shop token create or delete",
		"token x":                             "shop token: unknown command \"x\": must be shop token create or delete",
		"token create x":                      "shop token create: unknown argument \"x\"",
		"token delete":                        "shop token delete: NAME is missing: shop token delete NAME [flags]",
		"approve n":                           "shop approve: --group is required: the GROUP to approve",
		"approve n --group=":                  "shop approve: --group must not be empty",
		"approve n --group":                   "shop approve: --group needs a value",
		"approve n --group g --gate x":        "shop approve: --gate: \"x\": must be one of Before, After",
		"approve n --group g --to x":          "shop approve: --to: \"x\": must be a whole number",
		"approve n --group g --to -1":         "shop approve: --to: -1: must not be negative",
		"approve n --frob":                    "shop approve: unknown flag --frob",
		"approve n -x":                        "shop approve: unknown flag -x",
		"completion":                          "shop completion: must be shop completion bash, fish, powershell or zsh",
		"completion bash x":                   "shop completion bash: unknown argument \"x\"",
		"approve n --group g --gate After --": "",
	} {
		status, _, problem := program(t, strings.Split(line, " ")...)
		if want == "" && status == 0 && problem == "" {
			continue
		}
		if status != 2 || problem != want+"\nRun with --help for the usage.\n" {
			t.Errorf("%s: %d: %s", line, status, problem)
		}
	}
}

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		line   string
		status int
		want   string
	}{
		{"approve n --gate After --group g --to 3", 0, "n g After 3\n"},
		{"token create", 1, "shop token create: out of stock\n"},
		{"old", 0, "[]\n"},
		{"old --x", 1, "[--x]\n"},
		{"help", 0, "Usage: shop COMMAND [flags]\n\nSells.\n\n  approve      open a gate\n" +
			"  completion   Generate the autocompletion script for the specified shell\n  old          an old command\n" +
			"  token        tokens\n\nshop COMMAND --help describes a command.\n"},
		{"approve --help", 0, "Usage: shop approve NAME --group GROUP [--gate Before|After] [--to N] [flags]\n\nopen a " +
			"gate.\n\n      --gate Before|After   the gate (default Before)\n      --group GROUP         the GROUP to " +
			"approve\n  -h, --help                show this help\n      --to int              the number\n"},
		{"__complete approve ", 0, "NAME\n:4\n"},
		{"__complete approve n ", 0, ":4\n"},
		{"__complete approve n --group ", 0, "n\n--group\n:4\n"},
		{"__complete approve n --gate ", 0, "Before\nAfter\n:4\n"},
	} {
		status, out, problem := program(t, strings.Split(tt.line, " ")...)
		if strings.HasPrefix(tt.line, "__") {
			problem = "" // cobra's remark
		}
		if status != tt.status || out+problem != tt.want {
			t.Errorf("%s: %d: %q", tt.line, status, out+problem)
		}
	}
	if status, out, _ := program(t, "completion", "bash"); status != 0 || !strings.Contains(out, "__start_shop") {
		t.Errorf("bash: %d: %s", status, out)
	}
}
