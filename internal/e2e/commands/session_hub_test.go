// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

var (
	// shown matches a command of a page with its output.
	shown = regexp.MustCompile("```sh\n(.*)\n```\n\n```text\n((?s:.*?))```\n")
	// ages matches the ages of an output, and the space between two columns.
	ages    = regexp.MustCompile(`\b(\d+[smh])+\b|<unknown>`)
	columns = regexp.MustCompile(`(\S) {2,}`)
)

// same returns an output in the form that is compared.
func same(out string) string {
	return columns.ReplaceAllString(ages.ReplaceAllString(strings.TrimSpace(out), "1s"), "$1  ")
}

// commandsOfAHub runs the section of examples/hub/README.md about commands, and compares the outputs.
func commandsOfAHub(x *terminal) {
	x.clear()
	x.take("examples/hub/samples")
	page, agents := fmt.Sprint(daemon.FreeAddr(x.t).Port()), fmt.Sprint(daemon.FreeAddr(x.t).Port())
	x.swap = append(x.swap, ":8443", ":"+agents)
	api := []string{"--api", "http://127.0.0.1:" + page}
	x.start("Started serving", "go run ./examples/hub --grpc localhost:8443", "--listen", "127.0.0.1:"+page,
		"--patience", "1s")
	x.start("Started serving works", "go run ./examples/agent --hub localhost:8443 --hub-insecure "+
		"--cluster cluster1 --source hub --store cluster1.db")
	text := read(x.t, "examples/hub/README.md")
	for _, block := range shown.FindAllStringSubmatch(text, -1) {
		command, want := block[1], same(block[2])
		if strings.Contains(command, "diff -f examples/hub/samples/shop.yaml") {
			sample := "examples/hub/samples/shop.yaml"
			x.file(sample, strings.Replace(read(x.t, sample), "Welcome", "Hello", 1))
		}
		once := func() error {
			out, err := x.try("", command, api...)
			if err == nil && same(out) != want {
				err = errors.New(cmp.Diff(want, same(out)))
			}
			return err
		}
		if verb := strings.Fields(command)[3]; slices.Contains([]string{"status", "get", "history"}, verb) {
			e2etest.Eventually(x.t, command, once)
		} else if err := once(); err != nil {
			x.t.Errorf("%s: %v", command, err)
		}
	}
}
