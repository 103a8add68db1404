// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// dashboard is the checked part of Grafana's model.
type dashboard struct {
	Title         string
	SchemaVersion int
	Templating    struct{ List []variable }
	Panels        []panel
}

type variable struct {
	Name, Type string
	Definition string
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	Datasource               struct{ UID string }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		RefID      string
		Expr       string
		Datasource struct{ UID string }
	}
}

func readDashboard(t *testing.T) *dashboard {
	t.Helper()
	data, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

// TestDashboardPanels: each panel has a title, a description, a unit, its own place on the grid,
// and the chosen data source.
func TestDashboardPanels(t *testing.T) {
	d := readDashboard(t)
	if d.SchemaVersion < 39 || len(d.Templating.List) == 0 || d.Templating.List[0].Type != "datasource" {
		t.Errorf("schema %d, variables %v", d.SchemaVersion, d.Templating.List)
	}
	ids := map[int]string{}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		if other := ids[p.ID]; other != "" {
			t.Errorf("%q and %q have the ID %d", other, p.Title, p.ID)
		}
		ids[p.ID] = p.Title
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok || x >= 24 {
					t.Fatalf("%q lies over %q, or beside the grid", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || !strings.HasSuffix(p.Description, ".") || p.FieldConfig.Defaults.Unit == "" ||
			len(p.Targets) == 0 {
			t.Errorf("%q lacks a title, a sentence, a unit or a query", p.Title)
		}
		if p.Datasource.UID != "${datasource}" {
			t.Errorf("%q reads the data source %q", p.Title, p.Datasource.UID)
		}
		for _, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" {
				t.Errorf("%q, query %s, reads the data source %q", p.Title, target.RefID, target.Datasource.UID)
			}
		}
	}
}

// TestDashboardQueries compares the queries with the metrics of a running source and agent. Each
// query uses existing metrics and labels, and each metric is on a panel.
func TestDashboardQueries(t *testing.T) {
	exist := existingMetrics(t)
	d := readDashboard(t)
	shown := map[string]bool{}
	check := func(where, expr string) {
		q, err := parseQuery(expr)
		if err != nil {
			t.Errorf("%s: %v in %s", where, err, expr)
			return
		}
		if len(q.metrics) == 0 {
			t.Errorf("%s: no metric in %s", where, expr)
		}
		labels := map[string]bool{"job": true, "instance": true} // labels of the scrape
		for _, name := range q.metrics {
			family, ok := exist[name]
			if !ok {
				t.Errorf("%s: there is no %s", where, name)
				continue
			}
			shown[family.name] = true
			maps.Copy(labels, family.labels)
		}
		for _, label := range q.labels {
			if !labels[label] {
				t.Errorf("%s: no metric of %v has the label %s", where, q.metrics, label)
			}
		}
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			check(fmt.Sprintf("%q, query %s", p.Title, target.RefID), target.Expr)
		}
	}
	lookup := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range d.Templating.List[1:] {
		m := lookup.FindStringSubmatch(v.Definition)
		if m == nil {
			t.Errorf("variable %s: %s is no lookup", v.Name, v.Definition)
			continue
		}
		check("variable "+v.Name, fmt.Sprintf("sum by (%s) (%s)", m[2], m[1]))
	}
	for _, family := range exist {
		if !shown[family.name] {
			t.Errorf("%s is on no panel", family.name)
			shown[family.name] = true // report it once
		}
	}
}

// TestMetricsAreDocumented: METRICS.md has every metric, with its type and labels, and no other
// metric.
func TestMetricsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, m := range regexp.MustCompile(
		`(?m)^\| .(\w+). \| (counter|gauge|histogram) \| ([-\w]+) \|`).FindAllStringSubmatch(string(doc), -1) {
		documented["spokewire_cloudevents_"+m[1]] = m[2] + " " + m[3]
	}
	exist := map[string]string{}
	for _, f := range existingMetrics(t) {
		own := []string{}
		for label := range f.labels {
			if label != "kind" && label != "client" && label != "le" {
				own = append(own, label)
			}
		}
		exist[f.name] = f.kind + " " + cmp.Or(strings.Join(own, ","), "-")
	}
	if diff := gocmp.Diff(exist, documented); diff != "" {
		t.Errorf("metrics that exist (-) and that the documentation has (+):\n%s", diff)
	}
}

// family is a metric family of a registry.
type family struct {
	name, kind string
	labels     map[string]bool
}

// existingMetrics returns the metrics of a source and an agent by series name. A histogram has one
// name for each suffix.
func existingMetrics(t *testing.T) map[string]*family {
	exist := map[string]*family{}
	inScene(t, func(s *scene) {
		registry := prometheus.NewPedanticRegistry()
		h := s.source(work.SourceOptions{MetricsRegisterer: registry})
		a := s.agent(work.AgentOptions{MetricsRegisterer: registry})
		s.settle()
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		a.report("app", "ok")
		s.settle()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			one := &family{name: f.GetName(), kind: strings.ToLower(f.GetType().String()), labels: map[string]bool{}}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					one.labels[l.GetName()] = true
				}
			}
			if f.GetMetric()[0].GetHistogram() == nil {
				exist[one.name] = one
				continue
			}
			exist[one.name+"_sum"], exist[one.name+"_count"] = one, one
			bucket := &family{name: one.name, kind: one.kind, labels: maps.Clone(one.labels)}
			bucket.labels["le"] = true
			exist[one.name+"_bucket"] = bucket
		}
	})
	return exist
}

// query is the metrics and labels of a PromQL expression.
type query struct{ metrics, labels []string }

var (
	promToken = regexp.MustCompile(
		`^(\s+|"[^"]*"|\[[$\w:]+\]|[a-zA-Z_:][\w:]*|[0-9.]+|=~|!=|!~|==|>=|<=|[-+*/%^<>=(){},])`)
	// promWords are the operators and functions of the dashboard. They may stand outside of braces
	// and lists of labels.
	promWords = []string{"sum", "max", "min", "count", "topk", "rate", "histogram_quantile", "time", "by", "on", "and"}
)

// parseQuery finds metrics and labels. It returns errors that need no grammar: unknown words and
// characters, and unmatched brackets.
func parseQuery(expr string) (*query, error) {
	q := &query{}
	var open []string // open brackets; "by" stands for a bracket around labels
	before := ""
	for rest := expr; rest != ""; {
		token := promToken.FindString(rest)
		if token == "" {
			return nil, fmt.Errorf("nothing known at %q", rest)
		}
		rest = rest[len(token):]
		if strings.TrimSpace(token) == "" {
			continue
		}
		within := ""
		if len(open) > 0 {
			within = open[len(open)-1]
		}
		switch c := token[0]; {
		case token == "(" && (before == "by" || before == "on"):
			open = append(open, "by")
		case token == "(" || token == "{":
			open = append(open, token)
		case token == ")" || token == "}":
			if within == "" || (token == "}") != (within == "{") {
				return nil, fmt.Errorf("a %s that closes nothing before %q", token, rest)
			}
			open = open[:len(open)-1]
		case c != '_' && (c < 'a' || c > 'z'):
		case within == "by" || within == "{":
			q.labels = append(q.labels, token)
		case slices.Contains(promWords, token):
		default:
			q.metrics = append(q.metrics, token)
		}
		before = token
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("%d brackets are open at the end", len(open))
	}
	return q, nil
}
