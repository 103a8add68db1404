// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

// defaults returns the options without arguments.
func defaults() options {
	return options{
		Agents: 100, Works: 10_000, Size: 1024, UnderWay: 512, Duration: 10 * time.Second, Timeout: time.Minute,
	}
}

func TestParse(t *testing.T) {
	for args, change := range map[string]func(*options){
		"": func(*options) {},
		"--broker mqtt://b:1883 --agents 3 --works=7 --size 10 --under-way 2 --rate 0.5 --duration 1s --timeout 5s": func(
			o *options) {
			o.Broker, o.Agents, o.Works, o.Size, o.UnderWay = "mqtt://b:1883", 3, 7, 10, 2
			o.Rate, o.Duration, o.Timeout = 0.5, time.Second, 5*time.Second
		},
		"--light --floor --verbose -svg s": func(o *options) {
			o.Light, o.Floor, o.Verbose, o.SVG = true, true, true, "s"
		},
	} {
		want := defaults()
		change(&want)
		got, err := parse(strings.Fields(args))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", args, err, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	commandtest.Refuses(t, parse, map[string]string{
		"mine":              `unknown argument "mine"`,
		"--no-such-flag":    "-no-such-flag",
		"--agents 0":        "--agents must be from 1 to 60000, not 0",
		"--agents many":     "-agents",
		"--works -1":        "--works must be from 1 to",
		"--size 2000000":    "--size must be from 1 to 1048576",
		"--under-way 0":     "--under-way must be",
		"--rate 0":          "--rate must be more than 0",
		"--rate NaN":        "--rate must be more than 0",
		"--duration 1ms":    "--duration must be from 100ms",
		"--timeout 0s":      "--timeout must be at least 1s",
		"--broker=":         "--broker must not be empty",
		"--broker b:1883":   "--broker: ",
		"--broker http://b": "scheme",
		"--svg=":            "--svg must not be empty",
	})
}

func TestUsage(t *testing.T) {
	commandtest.Usage(t, usage, "broker", "agents", "light", "works", "size", "under-way",
		"rate", "duration", "floor", "timeout", "svg", "verbose")
}
