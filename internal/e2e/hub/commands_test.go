// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// console runs commands of the hub.
type console struct {
	*site
	dir     string
	program string
	api     []string
}

// newConsole starts a site with a hub that has documents from its API.
func newConsole(t *testing.T, clusters ...string) *console {
	t.Helper()
	s := newSite(t, clusters)
	dir := t.TempDir()
	s.hub = &hub{process: newProcess(t, true, "hub", append(s.reach("hub"), "--source", "hub", "--store",
		filepath.Join(dir, "hub-data"), "--listen", "127.0.0.1:0", "--patience", "1s")...)}
	s.hub.start()
	for _, p := range s.spokes {
		p.start()
	}
	return &console{site: s, dir: dir, program: e2etest.Program(t, "hub", true), api: []string{"--api", s.hub.url}}
}

func (c *console) file(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// run runs a command line, with words separated by one space.
func (c *console) run(line string) (string, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), e2etest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.program, append(strings.Split(line, " "), c.api...)...)
	cmd.Dir = c.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var (
	// age matches an age or a time of the output, and blanks the space between two columns.
	age    = regexp.MustCompile(`\b(\d+[smh])+\b|<unknown>`)
	blanks = regexp.MustCompile(`(\S) {2,}`)
)

// plain returns an output with AGE in place of ages, and columns separated by two spaces.
func plain(out string) string {
	return blanks.ReplaceAllString(age.ReplaceAllString(out, "AGE"), "$1  ")
}

// prints waits until a command that changes nothing prints a text.
func (c *console) prints(line, want string) {
	c.t.Helper()
	eventually(c.t, line, func() error {
		out, err := c.run(line)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(plain(out))); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// does runs a command once. It must print a text.
func (c *console) does(line, want string) {
	c.t.Helper()
	out, err := c.run(line)
	if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(plain(out))); err != nil || diff != "" {
		c.t.Errorf("hub %s: %v:\n%s", line, err, diff)
	}
}

// fails runs a command that must fail with a status and a text.
func (c *console) fails(line string, status int, want string) {
	c.t.Helper()
	out, err := c.run(line)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != status || !strings.Contains(out, want) {
		c.t.Errorf("hub %s: %v: %s; want status %d and %s", line, err, out, status, want)
	}
}

// greeter returns an application with one object, and the lines of its rollout.
func greeter(version, rollout string) string {
	return documentHead + `kind: Application
metadata: {name: shop}
spec:
` + rollout + `  parts:
  - name: web
    manifests:
    - template: |
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: web, namespace: default}
        data:
          greeting: ` + version + ` {{ .Cluster.Name }}
`
}

const everywhere = documentHead + "kind: Placement\nmetadata: {name: everywhere}\n" +
	"spec: {applications: [shop], clusters: {selector: {}}}\n"

// TestCommands runs the commands as a person would, from the first documents to the end of the hub.
func TestCommands(t *testing.T) {
	c := newConsole(t, "cluster1", "cluster2")
	c.file("all.yaml", clusters("cluster1", "cluster2")+"---\n"+everywhere+"---\n"+greeter("Hello", ""))
	const created = `
cluster/cluster1 created
cluster/cluster2 created
placement/everywhere created
application/shop created
`
	c.does("diff -f all.yaml", created+`
APPLICATION  CHANGE  CLUSTERS  OBJECT
shop  created  cluster1,cluster2  ConfigMap default/web
`)
	c.does("get placements", "NAME  APPLICATIONS  CLUSTERS  SELECTOR")
	c.does("apply -f all.yaml", created)
	c.prints("status shop", `
NAME  SYNC  HEALTH  CLUSTERS  REVISION  AGE  REASON
shop  Synced  Healthy  2/2  1  AGE

CLUSTER  SYNC  HEALTH  REVISION  AGE  REASON
cluster1  Synced  Healthy  1  AGE
cluster2  Synced  Healthy  1  AGE
`)
	c.prints("get objects --cluster cluster1", `
KIND  NAMESPACE  NAME  SYNC  HEALTH  APPLICATION  AGE  REASON
ConfigMap  default  web  Synced  Healthy  shop  AGE
`)
	c.does("get application shop -o yaml", `
apiVersion: hub.spokewire.io/v1alpha1
kind: Application
metadata:
  name: shop
spec:
  parts:
  - manifests:
    - template: |
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: web, namespace: default}
        data:
          greeting: Hello {{ .Cluster.Name }}
    name: web
`)
	t.Run("rollout", c.rollout)
	t.Run("completion", c.completion)
	t.Run("end", c.end)
}

// rollout updates the application in groups, and rolls it back.
func (c *console) rollout(t *testing.T) {
	c.t = t
	watch, err := daemon.Start(c.program, append([]string{"get", "applications", "--watch"}, c.api...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	watched := func(want string) {
		t.Helper()
		eventually(t, "the watch prints "+want, func() error {
			if log := plain(watch.Log()); !strings.Contains(log, want) {
				return errors.New(log)
			}
			return nil
		})
	}
	watched("shop  Synced  Healthy  2/2  1  AGE")
	c.file("shop.yaml", greeter("Bye",
		"  rollout: {groups: [{name: canary, clusters: {names: [cluster1]}, approveAfter: true}]}\n"))
	c.does("apply -f shop.yaml", "application/shop changed")
	waiting := `the rollout waits for an approval after group "canary"`
	c.prints("status shop", `
NAME  SYNC  HEALTH  CLUSTERS  REVISION  AGE  REASON
shop  OutOfSync  Suspended  2/2  2  AGE  `+waiting+`

GROUP  CLUSTERS  IN-PROGRESS  SUCCEEDED  FAILED  WAITING
canary  1  0  1  0
(others)  1  0  0  0  `+waiting+`

CLUSTER  SYNC  HEALTH  REVISION  AGE  REASON
cluster1  Synced  Healthy  2  AGE
cluster2  OutOfSync  Healthy  1  AGE  waits for its turn in the rollout
`)
	watched("shop  OutOfSync  Suspended  2/2  2  AGE  " + waiting)
	c.does("pause shop", "application/shop paused")
	eventually(t, "the rollout is paused", func() error {
		if out, err := c.run("status shop -o json"); err != nil || !strings.Contains(out, `"paused": true`) {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	c.does("resume shop", "application/shop resumed")
	c.does("approve shop --group canary --gate After", "application/shop approved: after the group canary")
	c.prints("get applications", `
NAME  SYNC  HEALTH  CLUSTERS  REVISION  AGE  REASON
shop  Synced  Healthy  2/2  2  AGE
`)
	watched("shop  Synced  Healthy  2/2  2  AGE")
	c.does("history shop", `
APPLICATION  REVISION  CLUSTERS  BY  AGE  CAUSE
shop  2  2  admin  AGE  Application shop has changed
shop  1  2  admin  AGE  4 documents have changed
`)
	c.does("diff shop", `
.spec.parts[name="web"].manifests[0].template
-  greeting: Hello {{ .Cluster.Name }}
+  greeting: Bye {{ .Cluster.Name }}
.spec.rollout
+ {
+  "groups": [
+  {
+  "approveAfter": true,
+  "clusters": {
+  "names": [
+  "cluster1"
+  ]
+  },
+  "name": "canary"
+  }
+  ]
+ }
`)
	c.does("rollback shop --to 1", "application/shop rolled back to revision 1")
	c.does("abort shop", "application/shop aborted")
	c.does("rollback shop --end", "application/shop follows its document again")
	c.prints("get applications", `
NAME  SYNC  HEALTH  CLUSTERS  REVISION  AGE  REASON
shop  OutOfSync  Suspended  2/2  3  AGE  `+waiting)
	c.does("approve shop --group canary --gate After", "application/shop approved: after the group canary")
	c.prints("get applications", `
NAME  SYNC  HEALTH  CLUSTERS  REVISION  AGE  REASON
shop  Synced  Healthy  2/2  3  AGE
`)
}

// end checks errors, and removes everything.
func (c *console) end(t *testing.T) {
	c.t = t
	c.fails("delete application shop", 1, `Placement everywhere: spec.applications[0]: there is no Application "shop"`)
	c.does("delete placement everywhere", "placement/everywhere deleted")
	c.fails("status other", 1, `hub status: there is no application "other"`)
	c.fails("token list", 1, "this hub issues no certificates: start it with --certs and --join-listen")
	c.hub.kill()
	c.fails("status", 1, "hub status: --api "+c.hub.url+": dial tcp ")
	c.fails("status", 1, "connection refused: is a hub running with this --listen?\n")
	c.hub.start() // its end is checked
}

// completion presses the key Tab in bash.
func (c *console) completion(t *testing.T) {
	const library = "/usr/share/bash-completion/bash_completion"
	if _, err := os.Stat(library); err != nil {
		daemon.Missing(t, "bash-completion is not installed (on Debian: apt-get install bash-completion)")
	}
	for line, want := range map[string]string{
		"hub hist":     "history",
		"hub token ":   "create delete list",
		"hub get clus": "clusters",
		"hub delete ": "applications clusters placements " +
			"resourceexploringwebhookconfigurations resourceinterpreterwebhookconfigurations",
		"hub status API ":                      "shop",
		"hub get placements API ":              "everywhere",
		"hub revoke API ":                      "cluster1 cluster2",
		"hub token create API --cluster ":      "cluster1 cluster2",
		"hub approve API shop --group ":        "canary",
		"hub approve shop --gate ":             "After Before",
		"hub diff API shop --from ":            "1 2 3",
		"hub status -o w":                      "wide",
		"hub status --api http://127.0.0.1:1 ": "",
	} {
		script := `source ` + library + `
source <(hub completion bash)
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_KEY=9
read -ra COMP_WORDS <<<"${1//:/ : }"
if [[ $1 == *" " ]]; then COMP_WORDS+=(""); fi
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
__start_hub
printf '%s\n' "${COMPREPLY[@]}" | sed 's/ *$//; s/ *(.*//' | sort | xargs
`
		cmd := exec.CommandContext(t.Context(), daemon.Require(t, "bash", "bash"), "--norc", "-c", script, "bash",
			strings.ReplaceAll(line, "API", "--api "+c.hub.url))
		cmd.Dir = c.dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(c.program)+":"+os.Getenv("PATH"))
		out, err := cmd.Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q: %v: %q; want %q", line, err, got, want)
		}
	}
}
