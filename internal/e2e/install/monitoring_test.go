// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// examples is the folder of the programs.
const examples = "../../../examples/"

// tool returns the path of a program of Debian's package prometheus.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		daemon.Missing(t, name+" is missing: install Debian's package prometheus")
	}
	return path
}

// alert is an alert of a file of rules.
type alert struct {
	Alert, Expr string
	Annotations map[string]string
}

// alerts returns the alerts of a program.
func alerts(t *testing.T, program string) (all []alert) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	read(t, examples+program+"/install/rules.yaml", &file)
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no alerts", program)
	}
	return all
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAlerts runs the unit tests of the rules. Each alert has one, and a section in the runbook.
func TestAlerts(t *testing.T) {
	t.Parallel()
	promtool := tool(t, "promtool")
	manual, err := os.ReadFile(examples + "OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"hub", "agent"} {
		tests := "testdata/" + program + ".test.yaml"
		rules := examples + program + "/install/rules.yaml"
		for _, args := range [][]string{{"check", "rules", rules}, {"test", "rules", tests}} {
			if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
				t.Errorf("promtool %v: %v\n%s", args, err, out)
			}
		}
		text, err := os.ReadFile(tests)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range alerts(t, program) {
			if !strings.Contains(string(text), `alertname="`+a.Alert+`"`) {
				t.Errorf("%s has no unit test in %s", a.Alert, tests)
			}
			_, anchor, _ := strings.Cut(a.Annotations["runbook_url"], "/main/examples/OPERATIONS.md#")
			if anchor != strings.ToLower(a.Alert) {
				t.Errorf("%s: the URL of the runbook is %q", a.Alert, a.Annotations["runbook_url"])
			}
			_, section, _ := strings.Cut(string(manual), "\n### "+a.Alert+"\n")
			if section, _, _ = strings.Cut(section, "\n#"); len(strings.Fields(section)) < 15 {
				t.Errorf("OPERATIONS.md has no section %q, or a short one", a.Alert)
			}
		}
	}
}

// TestKindsOfOperator checks the objects for the Prometheus Operator with the types of its API.
func TestKindsOfOperator(t *testing.T) {
	t.Parallel()
	for program, flags := range map[string][]string{
		"hub":   {"--monitoring", "--", "--broker", "mqtts://broker.example.com"},
		"agent": {"--monitoring", "--role", "edit", "--", "--cluster", "c", "--source", "hub", "--hub", "h:8443"},
	} {
		out, err := command(t, program, append([]string{"install", "--image", "i"}, flags...)...)
		if err != nil {
			t.Fatal(err, out)
		}
		var monitor monitoringv1.ServiceMonitor
		var rule monitoringv1.PrometheusRule
		for kind, into := range map[string]any{"ServiceMonitor": &monitor, "PrometheusRule": &rule} {
			_, text, _ := strings.Cut(out, "\nkind: "+kind+"\n")
			text, _, _ = strings.Cut(text, "\n---\n")
			if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
				t.Errorf("%s: %v\n%s", kind, err, text)
			}
		}
		port := map[string]string{"hub": "https", "agent": "http"}[program]
		if len(monitor.Spec.Endpoints) != 1 || monitor.Spec.Endpoints[0].Port != port {
			t.Errorf("the endpoints are %+v", monitor.Spec.Endpoints)
		}
		n := 0
		for _, group := range rule.Spec.Groups {
			n += len(group.Rules)
		}
		if want := len(alerts(t, program)); n != want {
			t.Errorf("the rule has %d alerts, want %d", n, want)
		}
	}
}

// state matches a condition for a label with a word of the hub's status.
var state = regexp.MustCompile(`(?:sync|health|agent|link)=~?"([^"]*)"`)

// TestStatesOfAlerts checks that the hub has the states that its alerts name.
func TestStatesOfAlerts(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	files, err := filepath.Glob(examples + "hub/internal/*/*.go")
	for _, file := range files {
		text, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr)
		if !strings.HasSuffix(file, "_test.go") {
			source.Write(text)
		}
	}
	if err != nil || source.Len() == 0 {
		t.Fatal(files, err)
	}
	words := 0
	for _, a := range alerts(t, "hub") {
		for _, match := range state.FindAllStringSubmatch(a.Expr, -1) {
			for _, word := range strings.Split(match[1], "|") {
				words++
				if !strings.Contains(source.String(), `"`+word+`"`) {
					t.Errorf("%s: the hub has no state %q", a.Alert, word)
				}
			}
		}
	}
	if words < 4 {
		t.Errorf("%d states", words)
	}
}

// prometheus is a real Prometheus that scrapes a hub and an agent, and has their rules.
type prometheus struct {
	t   *testing.T
	url string
}

func newPrometheus(t *testing.T, jobs map[string]string) *prometheus {
	t.Helper()
	folder := t.TempDir()
	rules := []string{}
	for _, program := range []string{"hub", "agent"} {
		path, err := filepath.Abs(examples + program + "/install/rules.yaml")
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, path)
	}
	var scrapes []any
	for job, address := range jobs {
		scheme := map[string]string{"hub": "https", "agent": "http"}[job]
		scrapes = append(scrapes, map[string]any{"job_name": job, "scheme": scheme,
			"tls_config":     map[string]any{"insecure_skip_verify": true},
			"static_configs": []any{map[string]any{"targets": []string{address}}}})
	}
	config, err := json.Marshal(map[string]any{
		"global": map[string]string{"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": rules,
		"scrape_configs": scrapes,
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "prometheus.yml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	p := &prometheus{t: t, url: "http://" + daemon.FreeAddr(t).String()}
	server, err := daemon.Start(tool(t, "prometheus"), "--config.file="+file, "--storage.tsdb.path="+folder+"/data",
		"--web.listen-address="+strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	server.StopAfter(t, "prometheus")
	if err := server.WaitReady(e2etest.Patience, func() error { return p.get("/-/ready", nil, nil) }); err != nil {
		t.Fatal(err)
	}
	return p
}

// get decodes an answer.
func (p *prometheus) get(path string, query url.Values, into any) error {
	response, err := http.Get(p.url + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", response.Status, body)
	case into == nil:
		return nil
	}
	return json.Unmarshal(body, into)
}

// series waits until a query has a result.
func (p *prometheus) series(what, query string) {
	p.t.Helper()
	e2etest.Eventually(p.t, what+": "+query, func() error {
		var answer struct{ Data struct{ Result []any } }
		err := p.get("/api/v1/query", url.Values{"query": {query}}, &answer)
		if err == nil && len(answer.Data.Result) == 0 {
			err = errors.New("no series")
		}
		return err
	})
}

// selector matches a metric with its labels, and value matches the value of a label.
var (
	selector = regexp.MustCompile(`(?:up|spokewire_\w+|workqueue_\w+)(?:\{[^}]*\})?`)
	value    = regexp.MustCompile(`=~?"[^"]*"`)
)

// TestMetrics runs each query of the dashboards and of the alerts on a Prometheus that scrapes a hub
// and an agent. All have data.
func TestMetrics(t *testing.T) {
	t.Parallel()
	jobs := running(t)
	p := newPrometheus(t, jobs)
	dashboards, err := filepath.Glob(examples + "*/install/*.json")
	if err != nil || len(dashboards) < 3 {
		t.Fatal(dashboards, err)
	}
	for _, file := range dashboards {
		var d struct {
			UID    string
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		read(t, file, &d)
		if d.UID+".json" != filepath.Base(file) || len(d.Panels) < 5 {
			t.Errorf("%s: the UID is %s, with %d panels", file, d.UID, len(d.Panels))
		}
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				p.series(filepath.Base(file)+" "+panel.Title,
					strings.NewReplacer("$job", ".*", "$__rate_interval", "1m").Replace(target.Expr))
			}
		}
	}
	for program := range jobs {
		for _, a := range alerts(t, program) {
			for _, metric := range selector.FindAllString(a.Expr, -1) {
				p.series(a.Alert, value.ReplaceAllString(metric, `!=""`))
			}
		}
	}
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := p.get("/api/v1/rules", nil, &answer); err != nil || len(answer.Data.Groups) != 3 {
		t.Fatal(answer, err)
	}
	for _, group := range answer.Data.Groups {
		for _, rule := range group.Rules {
			if rule.Health != "ok" {
				t.Errorf("%s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
		}
	}
}

// running starts a hub and an agent, with the samples of documents for one cluster. It returns their
// addresses, by the job.
func running(t *testing.T) map[string]string {
	t.Helper()
	documents := t.TempDir()
	for _, name := range []string{"clusters.yaml", "placements.yaml", "shop.yaml"} {
		text, err := os.ReadFile(examples + "hub/samples/" + name)
		if name == "clusters.yaml" {
			text, _, _ = bytes.Cut(text, []byte("\n---\n"))
		}
		if err = errors.Join(err, os.WriteFile(filepath.Join(documents, name), text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	cluster := kube.Start(t, kube.Options{})
	grpc := daemon.FreeAddr(t).String()
	authority, certs := certtest.New(t), t.TempDir()
	ca := authority.Write(t, certs, "ca")
	hubCert, hubKey := authority.Issue(t, "hub").Write(t, certs, "hub")
	cert, key := authority.Issue(t, "cluster1").Write(t, certs, "cluster1")
	jobs := map[string]string{}
	for _, program := range []struct {
		name string
		args []string
	}{
		{"hub", []string{"--grpc", grpc, "--grpc-cert", hubCert, "--grpc-key", hubKey, "--grpc-client-ca", ca,
			"--dir", documents, "--store", t.TempDir(), "--tls-cert", hubCert, "--tls-key", hubKey}},
		{"agent", []string{"--hub", grpc, "--hub-ca", ca, "--hub-cert", cert, "--hub-key", key,
			"--cluster", "cluster1", "--source", "hub", "--kubeconfig", cluster.Kubeconfig(),
			"--store", filepath.Join(t.TempDir(), "works.db")}},
	} {
		jobs[program.name] = daemon.FreeAddr(t).String()
		d, err := daemon.Start(e2etest.Program(t, program.name, false), append(program.args, "--listen",
			jobs[program.name])...)
		if err != nil {
			t.Fatal(err)
		}
		d.StopAfter(t, program.name)
	}
	return jobs
}
