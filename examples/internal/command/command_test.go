// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

const usage = "Usage: shout [flags]\n\n  --word W  what to say\n  --times N  how often\n  --help    show this\n"

type options struct {
	word  string
	times int
}

func parse(args []string) (options, error) {
	var o options
	flags := command.NewFlags("shout")
	flags.StringVar(&o.word, "word", "hey", "")
	flags.IntVar(&o.times, "times", 1, "")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.Given("times") && o.word == "hush" {
		return options{}, errors.New("--times is for shouting")
	}
	return o, errors.Join(flags.NotEmpty("word"), command.Within("times", o.times, 1, 3))
}

func check(o options) error {
	if o.word == "curse" {
		return errors.New("--word: not here")
	}
	return nil
}

// full is a writer that always returns an error.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		reason         string
		args           []string
		full           bool
		status         int
		stdout, stderr string
	}{
		{reason: "nothing is needed", stdout: "hey"},
		{reason: "flags count", args: []string{"--word", "ho", "-times=2"}, stdout: "hoho"},
		{reason: "help is no error", args: []string{"-h"}, stdout: usage},
		{reason: "the version of a test", args: []string{"--version"}, stdout: "shout (devel) " + runtime.Version() + " " +
			runtime.GOOS + "/" + runtime.GOARCH + "\n"},
		{reason: "help that cannot be written is one", args: []string{"--help"}, full: true, status: command.Failed,
			stderr: "shout: no space\n"},
		{reason: "a mistake", args: []string{"what"}, status: command.Misuse,
			stderr: "shout: unknown argument \"what\"\nRun with --help for the usage.\n"},
		{reason: "a mistake in what it names", args: []string{"--word", "curse"}, status: command.Misuse,
			stderr: "shout: --word: not here\nRun with --help for the usage.\n"},
		{reason: "a failure", full: true, status: command.Failed, stderr: "shout: no space\n"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var out, stderr strings.Builder
			stdout := io.Writer(&out)
			if tt.full {
				stdout = full{}
			}
			p := command.Program[options]{Name: "shout", Usage: usage, Parse: parse, Check: check}
			status := p.Run(tt.args, stdout, &stderr, func(o options) error {
				_, err := io.WriteString(stdout, strings.Repeat(o.word, o.times))
				return err
			})
			if status != tt.status || out.String() != tt.stdout || stderr.String() != tt.stderr {
				t.Errorf("%d, %q, %q", status, out.String(), stderr.String())
			}
		})
	}
}

func TestFlags(t *testing.T) {
	commandtest.Usage(t, usage, "word", "times")
	commandtest.Refuses(t, parse, map[string]string{
		"now":                   `unknown argument "now"`,
		"--now":                 "-now",
		"--times many":          "-times",
		"--times 0":             "--times must be from 1 to 3, not 0",
		"--times 4":             "--times must be from 1 to 3, not 4",
		"--word=":               "--word must not be empty",
		"--word hush --times 1": "--times is for shouting", // also with its default value
	})
	if o, err := parse([]string{"--word", "hush"}); o.word != "hush" || err != nil {
		t.Errorf("%+v, %v", o, err)
	}
	if errors.Is(command.NewFlags("shout").Parse([]string{"--other"}), flag.ErrHelp) {
		t.Error("a mistake is taken for a request for help")
	}
}

// TestTogether checks that a part that fails stops the others.
func TestTogether(t *testing.T) {
	failed := errors.New("failed")
	waits := func(ctx context.Context) error { <-ctx.Done(); return nil }
	fails := func(context.Context) error { return failed }
	if err := command.Together(t.Context(), waits, fails, waits); !errors.Is(err, failed) {
		t.Error(err)
	}
}
