// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package commands runs the commands of a program, in the manner of package command: exit statuses,
// errors that name flags and arguments, and help. It also completes them in shells.
//
// The field Use of a command describes its arguments and its required flags:
//
//	rollback APPLICATION [--to N]
//	approve APPLICATION --group GROUP --gate Before|After
//
// Arguments and flags in brackets are optional.
package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spokewire/sdk-go/examples/internal/command"
)

// Complete returns the values of an argument, such as APPLICATION, or of a flag, such as --cluster,
// after other arguments.
type Complete func(cmd *cobra.Command, name string, before []string) []string

// mistake is an error of a command line.
type mistake struct{ error }

// Unwrap returns the error.
func (m mistake) Unwrap() error { return m.error }

// Mistake marks an error as a mistake in the command line.
func Mistake(format string, args ...any) error { return mistake{fmt.Errorf(format, args...)} }

// Run runs one of the commands below root, and returns the exit status.
func Run(
	ctx context.Context, root *cobra.Command, complete Complete, args []string, stdout, stderr io.Writer,
) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return mistake{flagError(err)} })
	root.SetHelpFunc(help)
	root.InitDefaultCompletionCmd()
	prepare(root, complete)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if status, ended := errors.AsType[exit](err); ended {
		return int(status)
	}
	if errors.As(err, &mistake{}) {
		fmt.Fprintf(stderr, "%s: %v\nRun with --help for the usage.\n", cmd.CommandPath(), err)
		return command.Misuse
	}
	fmt.Fprintf(stderr, "%s: %v\n", cmd.CommandPath(), err)
	return command.Failed
}

// exit is the exit status of a command that prints its own errors.
type exit int

// Error implements error.
func (e exit) Error() string { return fmt.Sprint("exit status ", int(e)) }

// Of returns a command that reads its own flags, and prints its own errors and help.
func Of(
	name, short string, run func(ctx context.Context, args []string, stdout, stderr io.Writer) int,
) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if status := run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr()); status != 0 {
				return exit(status)
			}
			return nil
		}}
}

// prepare adds checks and completion to a command and the commands below it.
func prepare(cmd *cobra.Command, complete Complete) {
	if cmd.HasSubCommands() {
		cmd.Args, cmd.RunE = cobra.ArbitraryArgs, missing
		for _, sub := range cmd.Commands() {
			prepare(sub, complete)
		}
		return
	}
	if cmd.DisableFlagParsing {
		return
	}
	cmd.Flags().BoolP("help", "h", false, "show this help")
	arguments, required := parse(cmd.Use)
	cmd.Args = func(cmd *cobra.Command, args []string) error { return check(cmd, args, arguments, required) }
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(arguments) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, strings.Trim(arguments[len(args)], "[]"), args), cobra.ShellCompDirectiveNoFileComp
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		values, isEnum := f.Value.(*Enum)
		if !isEnum && strings.Contains(f.Usage, "`FILE`") {
			return // the shell completes files
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, func(
			cmd *cobra.Command, args []string, _ string,
		) ([]string, cobra.ShellCompDirective) {
			if isEnum {
				return values.values, cobra.ShellCompDirectiveNoFileComp
			}
			return complete(cmd, "--"+f.Name, args), cobra.ShellCompDirectiveNoFileComp
		}) // the error is that it is registered
	})
}

// missing is the error for a command that only has commands below it.
func missing(cmd *cobra.Command, args []string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	last := len(names) - 1
	if !cmd.HasParent() {
		return Mistake("unknown command %q: %s help lists the commands", strings.Join(args, " "), cmd.Name())
	}
	text := fmt.Sprintf("must be %s %s or %s", cmd.CommandPath(), strings.Join(names[:last], ", "), names[last])
	if len(args) > 0 {
		return Mistake("unknown command %q: %s", args[0], text)
	}
	return Mistake("%s", text)
}

// parse returns the arguments and the required flags of a command.
func parse(use string) (arguments, required []string) {
	optional := false
	words := strings.Fields(use)
	for i, word := range words[1:] {
		optional = optional || strings.HasPrefix(word, "[")
		flag, isFlag := strings.CutPrefix(strings.TrimPrefix(word, "["), "-")
		switch {
		case isFlag && !optional:
			required = append(required, strings.TrimLeft(flag, "-"))
		case !isFlag && !strings.HasPrefix(strings.TrimPrefix(words[i], "["), "-"): // no value of a flag
			arguments = append(arguments, word)
		}
		optional = optional && !strings.HasSuffix(word, "]")
	}
	return arguments, required
}

// check checks arguments and required flags.
func check(cmd *cobra.Command, args, arguments, required []string) error {
	if len(args) > len(arguments) {
		return Mistake("unknown argument %q", args[len(arguments)])
	}
	for _, name := range arguments[len(args):] {
		if name[0] != '[' {
			return Mistake("%s is missing: %s", name, cmd.UseLine())
		}
	}
	for _, name := range required {
		f := cmd.Flags().Lookup(name)
		if f == nil {
			f = cmd.Flags().ShorthandLookup(name)
		}
		if !f.Changed {
			return Mistake("%s is required: %s", dashed(f), strings.ReplaceAll(f.Usage, "`", ""))
		}
	}
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if strings.TrimSpace(f.Value.String()) == "" {
			err = errors.Join(err, fmt.Errorf("%s must not be empty", dashed(f)))
		}
	})
	if err == nil && slices.Contains(args, "") {
		err = errors.New("an argument is empty")
	}
	if err != nil {
		return mistake{err}
	}
	return nil
}

func dashed(f *pflag.Flag) string {
	if len(f.Name) == 1 {
		return "-" + f.Name
	}
	return "--" + f.Name
}

// flagError returns an error in the form of package command.
func flagError(err error) error {
	var unknown *pflag.NotExistError
	var incomplete *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("unknown flag %s", command.Dashed(unknown.GetSpecifiedName()))
	case errors.As(err, &incomplete):
		return fmt.Errorf("%s needs a value", dashed(incomplete.GetFlag()))
	case errors.As(err, &invalid):
		f, problem := invalid.GetFlag(), invalid.Unwrap().Error()
		switch f.Value.Type() {
		case "bool":
			problem = "must be true or false"
		case "duration":
			problem = "must be a duration such as 30s or 5m"
		case "int":
			problem = "must be a whole number"
		}
		return fmt.Errorf("%s: %q: %s", dashed(f), invalid.GetValue(), problem)
	}
	return err
}

// help prints the help of a command.
func help(cmd *cobra.Command, _ []string) {
	use, out := cmd.UseLine(), cmd.OutOrStdout()
	if cmd.HasSubCommands() {
		use = cmd.CommandPath() + " COMMAND [flags]"
	}
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintf(out, "Usage: %s\n\n%s\n\n", use, strings.TrimSpace(text))
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(out, "  %-12s %s\n", sub.Name(), sub.Short)
		}
	}
	if cmd.HasSubCommands() {
		fmt.Fprintf(out, "\n%s COMMAND --help describes a command.\n", cmd.CommandPath())
		return
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.AddFlagSet(cmd.LocalFlags())
	flags.AddFlagSet(cmd.InheritedFlags())
	fmt.Fprint(out, flags.FlagUsagesWrapped(100))
}

// Enum is the value of a flag: one of some texts, first the default.
type Enum struct {
	values []string
	value  string
}

// NewEnum returns the value of a flag.
func NewEnum(values ...string) *Enum { return &Enum{values, values[0]} }

// String implements [pflag.Value].
func (e *Enum) String() string { return e.value }

// Type implements [pflag.Value].
func (e *Enum) Type() string { return strings.Join(e.values, "|") }

// Set implements [pflag.Value].
func (e *Enum) Set(value string) error {
	if !slices.Contains(e.values, value) {
		return fmt.Errorf("must be one of %s", strings.Join(e.values, ", "))
	}
	e.value = value
	return nil
}
