// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package flags_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
	"github.com/spokewire/sdk-go/examples/rsync/internal/flags"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

func TestParse(t *testing.T) {
	none := map[string]string{}
	for line, want := range map[string]flags.Options{
		"serve": {Command: "serve", Listen: flags.DefaultAddr, Store: "rsync.db", Clusters: map[string]string{"fake": "3"}},
		"serve --observe heal --fake 7": {Command: "serve", Listen: flags.DefaultAddr, Store: "rsync.db",
			Observe: rsync.ObserveHeal, Clusters: map[string]string{"fake": "7"}},
		"serve --etcd a:1,b:2 --fake 7": {Command: "serve", Listen: flags.DefaultAddr, Store: "rsync.db",
			Etcd: []string{"a:1", "b:2"}, Clusters: map[string]string{"fake": "7"}},
		"create --cluster fake+c1 shop .": {Command: "create", Args: []string{"shop", "."}, Server: flags.DefaultAddr,
			App: "main", On: []appcontext.ClusterID{{Provider: "fake", Name: "c1"}}, Clusters: none},
		"create --cluster a+b --override f shop .": {Command: "create", Args: []string{"shop", "."},
			Server: flags.DefaultAddr, App: "main", On: []appcontext.ClusterID{{Provider: "a", Name: "b"}},
			Override: "f", Clusters: none},
		"update --no-wait --key k a b": {Command: "update", Args: []string{"a", "b"}, Server: flags.DefaultAddr, Key: "k",
			NoWait: true, Clusters: none},
		"status --watch --server h:1 a": {Command: "status", Args: []string{"a"}, Server: "h:1", Watch: true, Clusters: none},
		"approve --after a canary": {Command: "approve", Args: []string{"a", "canary"}, Server: flags.DefaultAddr,
			After: true, Clusters: none},
		"instantiate --rollout f a": {Command: "instantiate", Args: []string{"a"}, Server: flags.DefaultAddr,
			Rollout: "f", Clusters: none},
		"diff --from a b": {Command: "diff", Args: []string{"b"}, Server: flags.DefaultAddr, From: "a",
			Output: "text", Clusters: none},
		"diff --terminate -o json a": {Command: "diff", Args: []string{"a"}, Server: flags.DefaultAddr,
			Terminate: true, Output: "json", Clusters: none},
		"rollout --watch a": {Command: "rollout", Args: []string{"a"}, Server: flags.DefaultAddr,
			Watch: true, Clusters: none},
		"detach a p+c": {Command: "detach", Args: []string{"a", "p+c"}, Server: flags.DefaultAddr,
			On: []appcontext.ClusterID{{Provider: "p", Name: "c"}}, Clusters: none},
		"forget p+c": {Command: "forget", Args: []string{"p+c"}, Server: flags.DefaultAddr,
			On: []appcontext.ClusterID{{Provider: "p", Name: "c"}}, Clusters: none},
		"detached": {Command: "detached", Args: []string{}, Server: flags.DefaultAddr,
			Clusters: none},
		"list": {Command: "list", Args: []string{}, Server: flags.DefaultAddr, Clusters: none},
	} {
		got, err := flags.Parse(strings.Fields(line))
		if want.Args == nil {
			want.Args = []string{}
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", line, err, diff)
		}
	}
}

func TestUsage(t *testing.T) {
	commandtest.Usage(t, flags.Usage, "listen", "store", "etcd", "observe", "fake", "kubeconfig-dir", "git", "broker",
		"client-ca", "server", "ca", "cluster", "app", "override", "key", "no-wait", "watch", "rollout", "after", "from",
		"terminate", "cert", "key-file", "verbose")
	commandtest.Refuses(t, flags.Parse, map[string]string{
		"":                     "unknown command",
		"go":                   `unknown command "go"`,
		"--verbose list":       "-verbose",
		"list a":               `list needs no arguments, and has ["a"]`,
		"update a":             `update needs FROM TO, and has ["a"]`,
		"status a --watch":     "flags come before arguments",
		"status --no-wait a":   "-no-wait",
		"serve --listen :9031": "can be reached from other machines",
		"serve --listen :9031 --cert f --key-file f": "--client-ca",
		"serve --observe much":                       "must be one of nothing, status, drift, heal",
		"serve --listen here":                        "must be host:port",
		"serve --client-ca f":                        "--client-ca needs",
		"serve --cert f":                             "must be given together",
		"serve --store f --etcd h:1":                 "two stores",
		"serve --etcd a:1,":                          "an address is empty",
		"serve --store=":                             "--store must not be empty",
		"create a .":                                 "create needs --cluster",
		"create --cluster a+b --override= a .":       "--override must not be empty",
		"update --override f a b":                    "-override",
		"create --cluster c1 a .":                    "provider+name",
		"instantiate --server nowhere a":             "must be host:port",
		"terminate --key= a":                         "--key must not be empty",
		"status --watch --server=h:1 a b":            `has ["a" "b"]`,
		"stop --key k a":                             "-key",
		"serve --fake 1 --server h:1":                "-server",
		"delete --store f a":                         "-store",
		"clear-stop --etcd h:1 a":                    "-etcd",
		"rollback --cluster a+b from to":             "-cluster",
		"read --app x a":                             "-app",
		"pause --after a":                            "-after",
		"terminate --rollout f a":                    "-rollout",
		"update --rollout= a b":                      "--rollout must not be empty",
		"list --watch":                               "-watch",
		"diff --from a --terminate b":                "different events",
		"diff --from= b":                             "--from must not be empty",
		"diff -o yaml a":                             `-o: "yaml": must be json or text`,
		"diff a b":                                   `diff needs ID, and has ["a" "b"]`,
		"detach a c1":                                `CLUSTER: "c1": must be provider+name`,
		"attach a":                                   "attach needs ID CLUSTER",
		"forget +c1":                                 `CLUSTER: "+c1"`,
		"update -o json a b":                         "-o",
		"pause --watch a":                            "-watch",
		"serve --listen 0.0.0.0:1":                   "can be reached from other machines",
		"serve --listen example.com:9031":            "can be reached from other machines",
		"create --cluster +c --app x a .":            "provider+name",
		"create --cluster p+ --app x a .":            "provider+name",
		"serve --cert f --key-file= extra":           "serve needs no arguments",
	})
}
