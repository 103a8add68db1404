// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

const (
	clustersPage = "examples/TUTORIAL.md"
	hubCommand   = "go run ./examples/hub "
	agentCommand = "go run ./examples/agent "
)

// saved matches the files of a page: their names and contents.
var saved = regexp.MustCompile("(?s)Save this as `([^`]+)`.*?```yaml\n(.*?)```")

// addTwoClusters adds rows for the commands of the page that have no row.
func addTwoClusters() {
	page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(clustersPage)))
	if err != nil {
		panic(err)
	}
	for _, c := range markdown(string(page), clustersPage) {
		if _, ok := commands[c.text]; !ok {
			commands[c.text] = in("two clusters")
		}
	}
}

// step is a command of a page.
type step struct {
	command string
	want    string // a regular expression for the output
	runs    bool   // until the session ends; otherwise it is repeated until it succeeds with the output
	once    bool   // it must succeed the first time
}

// twoClusters follows examples/TUTORIAL.md from its first command to its last, with two API servers in
// place of the clusters of kind. Only the ports differ.
func twoClusters(x *terminal) {
	x.clear()
	var ports [3]string
	for i := range ports {
		ports[i] = fmt.Sprint(daemon.FreeAddr(x.t).Port())
	}
	x.swap = append(x.swap, ":8443", ":"+ports[0], ":8444", ":"+ports[1])
	for name, cluster := range map[string]*kube.Cluster{"north": x.cluster, "south": kube.Start(x.t, kube.Options{})} {
		config, err := os.ReadFile(cluster.Kubeconfig())
		if err != nil {
			x.t.Fatal(err)
		}
		x.file(name+".kubeconfig", string(config))
	}
	page := read(x.t, clustersPage)
	for _, file := range saved.FindAllStringSubmatch(page, -1) {
		x.file(file[1], file[2])
	}
	steps := stepsOfTwoClusters()
	var typed, documented []string
	for _, s := range steps {
		typed = append(typed, s.command)
	}
	for _, c := range markdown(page, clustersPage) {
		if commands[c.text].not == "" {
			documented = append(documented, c.text)
		}
	}
	if diff := cmp.Diff(documented, typed); diff != "" {
		x.t.Fatalf("other commands than on the page (-page +typed):\n%s", diff)
	}
	var last *process
	for _, s := range steps {
		var more []string
		switch {
		case s.runs && strings.HasPrefix(s.command, hubCommand):
			more = []string{"--listen", "127.0.0.1:" + ports[2]}
		case strings.HasPrefix(s.command, hubCommand) && !strings.HasPrefix(s.command, hubCommand+"certs"):
			more = []string{"--api", "http://localhost:" + ports[2]}
		}
		if s.runs {
			last = x.start(s.want, s.command, more...)
		} else {
			x.step(s, more)
		}
	}
	last.logs("revoked: join again with a new token") // the agent of south
}

// step runs a step of a page. A new token replaces the name of its cluster in capitals.
func (x *terminal) step(s step, more []string) {
	x.t.Helper()
	var out string
	try := func() (err error) {
		out, err = x.try("", s.command, more...)
		if err == nil && !regexp.MustCompile(s.want).MatchString(out) {
			err = fmt.Errorf("%s does not print %s:\n%s", s.command, s.want, out)
		}
		return err
	}
	if !s.once {
		e2etest.Eventually(x.t, s.command, try)
	} else if err := try(); err != nil {
		x.t.Fatal(err)
	}
	if _, cluster, ok := strings.Cut(s.command, "token create --cluster "); ok {
		token, _, _ := strings.Cut(out, "\n")
		x.swap = append(x.swap, strings.ToUpper(cluster), token)
	}
}

// stepsOfTwoClusters are all commands of the page, in their order.
func stepsOfTwoClusters() []step {
	agent := func(cluster string) string {
		return fmt.Sprintf(agentCommand+"--hub localhost:8443 --join %[1]s-certs --source hub --kubeconfig "+
			"%[1]s.kubeconfig --store %[1]s.db", cluster)
	}
	greeting := func(cluster string) step {
		return step{want: "^Welcome to " + cluster + "$", command: "kubectl --kubeconfig " + cluster +
			".kubeconfig get configmap web -n shop -o jsonpath='{.data.greeting}'"}
	}
	return []step{
		{command: hubCommand + "certs --name localhost --dir hub-certs", want: "created  hub-certs/ca.crt", once: true},
		{command: hubCommand + "--grpc :8443 --certs hub-certs --join-listen :8444 --join-url https://localhost:8444",
			want: "Started serving", runs: true},
		{command: hubCommand + "token create --cluster north", want: "agent join --hub https://localhost:", once: true},
		{command: hubCommand + "token create --cluster south", want: "agent join --hub https://localhost:", once: true},
		{command: agentCommand + "join --hub https://localhost:8444 --token NORTH --dir north-certs",
			want: "joined    as north", once: true},
		{command: agentCommand + "join --hub https://localhost:8444 --token SOUTH --dir south-certs",
			want: "joined    as south", once: true},
		{command: agent("north"), want: "Started serving works", runs: true},
		{command: agent("south"), want: "Started serving works", runs: true},
		{command: hubCommand + "apply -f fleet.yaml", want: "cluster/south created", once: true},
		{command: hubCommand + "apply -f shop.yaml", want: "application/shop created", once: true},
		{command: hubCommand + "complete", want: "complete", once: true},
		{command: hubCommand + "status shop", want: `canary +1 +0 +1 +0[^\n]*\n.*waits for an approval`},
		greeting("north"),
		{command: hubCommand + "approve shop --group canary --gate After", want: "approved", once: true},
		greeting("south"),
		{command: "sed -i.bak 's/greeting: .*/greeting: 5/' shop.yaml", once: true},
		{command: hubCommand + "diff -f shop.yaml", want: "shop +changed +north,south +ConfigMap shop/web", once: true},
		{command: hubCommand + "apply -f shop.yaml", want: "application/shop changed", once: true},
		{command: hubCommand + "status shop", want: `shop +OutOfSync +Degraded .*\n(.*\n)*canary +1 +0 +0 +1`},
		{command: hubCommand + "get objects --cluster north",
			want: `web +OutOfSync +Degraded .*\.data\.greeting: expected string`, once: true},
		{command: hubCommand + "rollback shop", want: "rolled back to revision 1", once: true},
		{command: hubCommand + "approve shop --group canary --gate After", want: "approved"},
		{command: hubCommand + "status shop", want: "shop +Synced +Healthy +2/2 +1 "},
		{command: hubCommand + "history shop", want: `shop +2 .*\nshop +1 `, once: true},
		{command: hubCommand + "revoke south", want: "revoked", once: true},
	}
}
