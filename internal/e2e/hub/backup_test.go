// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
)

// stores makes empty stores for hubs: folders and databases.
type stores struct {
	t      *testing.T
	server *postgres.Server
}

// database returns an empty database.
func (s *stores) database() string {
	if s.server == nil {
		s.server = postgres.Start(s.t, postgres.Options{})
		s.t.Setenv("PGPASSWORD", s.server.Password())
	}
	conn, err := url.Parse(s.server.Database(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	conn.User = url.User(conn.User.Username())
	return conn.String()
}

func (s *stores) folder() string { return filepath.Join(s.t.TempDir(), "store") }

// newAPIHub returns a hub with documents from its API. It has its own token, because a hub with
// a database writes no admin.token.
func newAPIHub(t *testing.T, store string, flags ...string) *hub {
	t.Helper()
	login := t.TempDir()
	tokens := filepath.Join(login, "tokens.csv")
	for file, text := range map[string]string{tokens: "token-of-ann,ann,1,hub-editors\n", adminToken(login): "token-of-ann"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--store", store, "--listen", daemon.FreeAddr(t).String(), "--token-auth-file", tokens}
	return &hub{process: newProcess(t, false, "hub", append(args, flags...)...), store: login}
}

// adminToken is the file with the token of an editor in a folder.
func adminToken(folder string) string { return filepath.Join(folder, "admin.token") }

// put sends a document, or an empty body to a path with POST.
func (h *hub) put(path, body string) {
	h.t.Helper()
	method := http.MethodPut
	if body == "" {
		method = http.MethodPost
	}
	eventually(h.t, path, func() error {
		code, text, err := h.send(method, "/api/v1/"+path, body)
		if err == nil && code/100 != 2 {
			err = fmt.Errorf("%d %s", code, text)
		}
		return err
	})
}

// configMap puts an application with one ConfigMap.
func (h *hub) configMap(name, version string) {
	h.t.Helper()
	h.put("applications/"+name, fmt.Sprintf(documentHead+"kind: Application\nmetadata: {name: %s}\nspec:\n"+
		"  parts:\n  - name: main\n    manifests:\n    - template: '{apiVersion: v1, kind: ConfigMap, "+
		"metadata: {name: %[1]s, namespace: default}, data: {v: %q}}'\n", name, version))
}

// place puts the placement of applications on all clusters.
func (h *hub) place(applications ...string) {
	h.t.Helper()
	h.put("placements/all", fmt.Sprintf(documentHead+"kind: Placement\nmetadata: {name: all}\n"+
		"spec: {applications: [%s], clusters: {selector: {}}}\n", strings.Join(applications, ", ")))
}

// command runs the hub's program to its end. It returns its output.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), e2etest.Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, e2etest.Program(t, "hub", false), args...).CombinedOutput()
	return string(out), err
}

// killed runs the hub's program, and kills it after a time. It returns whether the program has ended
// before.
func killed(t *testing.T, after time.Duration, args ...string) (ended bool) {
	t.Helper()
	d, err := daemon.Start(e2etest.Program(t, "hub", false), args...)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.Done():
		return true
	case <-time.After(after):
		d.Kill()
		return false
	}
}

// mainCluster is a real cluster with an agent.
type mainCluster struct {
	t     *testing.T
	agent *process
	core  kubernetes.Interface
}

func newMainCluster(t *testing.T, flags ...string) *mainCluster {
	t.Helper()
	cluster := kube.Start(t, kube.Options{})
	cluster.StartControllerManager() // completes deletions
	agent := newProcess(t, false, "agent", append(flags, "--cluster", "main", "--source", "hub", "--kubeconfig",
		cluster.Kubeconfig(), "--store", filepath.Join(t.TempDir(), "agent.db"))...)
	agent.start()
	return &mainCluster{t, agent, kubernetes.NewForConfigOrDie(cluster.Config())}
}

// have waits until the cluster has exactly these ConfigMaps with these versions. It returns their
// UIDs.
func (c *mainCluster) have(what string, want map[string]string) (uids map[string]string) {
	c.t.Helper()
	eventually(c.t, what, func() error {
		all, err := c.core.CoreV1().ConfigMaps("default").List(c.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		got := map[string]string{}
		uids = map[string]string{}
		for _, m := range slices.DeleteFunc(all.Items, func(m corev1.ConfigMap) bool {
			return m.Name == "kube-root-ca.crt"
		}) {
			got[m.Name], uids[m.Name] = m.Data["v"], string(m.UID)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("the cluster has %v, want %v", got, want)
		}
		return nil
	})
	return uids
}

// TestBackup backs up a hub while documents change, destroys its store, and restores the backup, also
// into a store of the other kind. Backups and restores are killed. Nothing is lost except the later
// changes, and no object is deleted before the documents are declared complete. Backups for folders
// are newer than the declaration of the works, and others may be older.
func TestBackup(t *testing.T) {
	for name, kinds := range map[string][2]func(*stores) string{
		"folder to folder":     {(*stores).folder, (*stores).folder},
		"folder to database":   {(*stores).folder, (*stores).database},
		"database to folder":   {(*stores).database, (*stores).folder},
		"database to database": {(*stores).database, (*stores).database},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stores{t: t}
			testBackup(t, kinds[0](s), kinds[1](s), strings.HasSuffix(name, "folder"))
		})
	}
}

var declaredWorks = regexp.MustCompile(`(?m)^spokewire_\w*inventory_complete\{[^}]*\} 1$`)

func testBackup(t *testing.T, from, to string, declared bool) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	cluster := newMainCluster(t, "--broker", broker.URL())
	h := newAPIHub(t, from, "--broker", broker.URL())
	h.start()
	h.put("clusters/main", documentHead+"kind: Cluster\nmetadata: {name: main}\n")
	names := []string{"changes"}
	want := map[string]string{}
	for i := range 30 {
		name := fmt.Sprintf("app%02d", i)
		names, want[name] = append(names, name), "1"
		h.configMap(name, "1")
	}
	h.configMap("changes", "0")
	h.place(names...)
	h.put("complete", "")

	if declared {
		eventually(t, "the declared works", func() error {
			_, text, err := h.call(http.MethodGet, "/metrics")
			if !declaredWorks.MatchString(text) {
				return fmt.Errorf("%s, %w", text, err)
			}
			return nil
		})
	}
	file := filepath.Join(t.TempDir(), "hub.backup")
	changed := 0
	for end := false; !end; { // while the application changes
		changed++
		backup := []string{"backup", "--out", file, "--api", h.url, "--token-file", adminToken(h.store)}
		h.configMap("changes", fmt.Sprint(changed))
		if changed < 10 {
			killed(t, time.Duration(changed)*5*time.Millisecond, backup...)
			continue
		}
		if out, err := command(t, backup...); err != nil {
			t.Fatal(err, out)
		}
		end = true
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	want["changes"] = fmt.Sprint(changed)
	uids := cluster.have("the state of the backup", want)

	h.configMap("later", "1")
	h.configMap("app00", "2")
	h.place(append(names, "later")...)
	want["later"], want["app00"] = "1", "2"
	late := cluster.have("the state after the backup", want)
	h.kill()
	if err := os.RemoveAll(from); err != nil { // of a folder
		t.Fatal(err)
	}

	restore(t, file, to)
	h = newAPIHub(t, to, "--broker", broker.URL())
	h.start()
	want["app00"] = "1"
	restored := cluster.have("the restored state", want)
	h.awaitLog(0, "hub complete")
	if declared {
		h.reports("is older than the works of")
	}
	h.configMap("app00", "3")
	want["app00"] = "3"
	same(t, cluster.have("a change after the restore", want), uids)
	same(t, restored, late)
	h.put("complete", "")
	delete(want, "later")
	same(t, cluster.have("the declared documents", want), uids)
	eventually(t, "the hub is well", func() error {
		_, text, err := h.call(http.MethodGet, "/readyz")
		if text != "ok\n" {
			return fmt.Errorf("%s, %w", text, err)
		}
		return nil
	})
}

// same checks that the objects of want are the same ones in got.
func same(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, uid := range want {
		if got[name] != uid {
			t.Errorf("%s was created again", name)
		}
	}
}

// restore restores a backup after attempts that are killed, until one ends.
func restore(t *testing.T, file, store string) {
	t.Helper()
	attempts := 1
	for !killed(t, time.Duration(attempts)*4*time.Millisecond, "restore", "--store", store, file) {
		attempts++
	}
	out, err := command(t, "restore", "--store", store, file)
	if err == nil || !strings.Contains(out, "the store is not empty") {
		t.Fatalf("another restore after %d attempts: %v: %s", attempts, err, out)
	}
	t.Logf("restored with attempt %d", attempts)
}

// TestStartWithoutDatabase starts a replica while the database is down, with a wrong password, and with
// the name of a missing database.
func TestStartWithoutDatabase(t *testing.T) {
	s := &stores{t: t}
	store := s.database()
	flags := []string{"--broker", mosquitto.Start(t, mosquitto.Options{}).URL(), "--listen"}
	for want, change := range map[string]func(*url.URL){
		"does not exist": func(u *url.URL) { u.Path = "/missing" },
		"refused":        func(u *url.URL) { u.User = url.User("another-user") },
	} {
		wrong, err := url.Parse(store)
		if err != nil {
			t.Fatal(err)
		}
		change(wrong)
		out, err := command(t, append(flags, "127.0.0.1:0", "--store", wrong.String())...)
		if err == nil || !strings.Contains(out, want) || strings.Contains(out, s.server.Password()) {
			t.Errorf("%s: %v: %s", wrong, err, out)
		}
	}
	s.server.Stop()
	h := newAPIHub(t, store, flags[:2]...)
	h.process.start()
	h.url = "http://" + h.args[3]
	for path, want := range map[string]string{
		"/": "503 the database is down: ", "/api/v1/status": `503 {"error":"the database is down: `,
		"/readyz": "503 the database is down: ", "/healthz": "200 ok",
	} {
		eventually(t, path, func() error {
			code, text, err := h.call(http.MethodGet, path)
			if got := fmt.Sprint(code, " ", text); !strings.HasPrefix(got, want) {
				return fmt.Errorf("%s, %w", got, err)
			}
			return nil
		})
	}
	h.awaitLog(0, "Failed to start, retrying")
	s.server.Restart()
	h.awaitLog(0, `"Started serving" url=`)
	h.put("clusters/main", documentHead+"kind: Cluster\nmetadata: {name: main}\n")
}
