// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/httpapi"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/examples/internal/table"
)

// newTable returns a table with a row for each element.
func newTable[T any](columns string, all []T, row func(T) []any) table.Table {
	t := table.Table{Columns: strings.Fields(columns)}
	for _, one := range all {
		t.Rows = append(t.Rows, row(one))
	}
	return t
}

func of(on status.Counts) string { return fmt.Sprintf("%d/%d", on[status.Healthy], on.Total()) }

func applications(all []status.Application) table.Table {
	return newTable("NAME SYNC HEALTH CLUSTERS REVISION +HELD AGE REASON", all, func(a status.Application) []any {
		held := ""
		if a.Held > 0 {
			held = fmt.Sprint(a.Held)
		}
		return []any{a.Name, a.Sync, a.Health, of(a.On), a.Revision, held, a.Since, a.Reason}
	})
}

func clusters(all []status.Cluster) table.Table {
	const columns = "NAME AGENT SYNC HEALTH APPLICATIONS LAST-HEARD +LABELS AGE REASON"
	return newTable(columns, all, func(c status.Cluster) []any {
		return []any{c.Name, c.Agent, c.Sync, c.Health, of(c.On), c.LastHeard, labels.FormatLabels(c.Labels), c.Since,
			c.Reason}
	})
}

func links(all []status.Link) table.Table {
	return newTable("LINK STATUS ADDRESS REASON", all, func(l status.Link) []any {
		return []any{l.Name, map[bool]string{true: "Up", false: "Down"}[l.Up], l.Address, l.Reason}
	})
}

// overview returns the tables of the hub.
func overview(hub status.Hub) []table.Table {
	d := hub.Documents
	problem := strings.Trim(d.Refused+"; "+d.Notice, "; ")
	documents := newTable("DOCUMENTS ACCEPTED PROBLEM", []status.Documents{d}, func(d status.Documents) []any {
		return []any{d.Origin, d.Accepted, problem}
	})
	unclaimed := newTable("UNCLAIMED-WORK CLUSTER APPLICATION OBJECTS", hub.Unclaimed, func(u status.Unclaimed) []any {
		return []any{u.Work, u.Cluster, u.Application, strings.Join(u.Objects, ", ")}
	})
	return []table.Table{links(hub.Links), documents, applications(hub.Applications), clusters(hub.Clusters), unclaimed}
}

// details returns the tables of an application.
func details(a status.Application) []table.Table {
	var groups []status.RolloutGroup
	waiting := ""
	if a.Rollout != nil {
		groups, waiting = a.Rollout.Groups, a.Rollout.Waiting
	}
	return []table.Table{
		applications([]status.Application{a}),
		newTable("GROUP CLUSTERS IN-PROGRESS SUCCEEDED FAILED WAITING", groups, func(g status.RolloutGroup) []any {
			why := ""
			if g.InProgress > 0 || g.Succeeded+g.Failed < g.Clusters {
				why, waiting = waiting, ""
			}
			return []any{cmp.Or(g.Name, "(others)"), g.Clusters, g.InProgress, g.Succeeded, g.Failed, why}
		}),
		newTable("CLUSTER SYNC HEALTH REVISION AGE REASON", a.Placements, func(p status.Placement) []any {
			return []any{p.Cluster, p.Sync, p.Health, p.Revision, p.Since, p.Reason}
		}),
	}
}

func placements(all []document.Placement) table.Table {
	return newTable("NAME APPLICATIONS CLUSTERS SELECTOR", all, func(p document.Placement) []any {
		selector := ""
		if p.Spec.Clusters.Selector != nil {
			selector = cmp.Or(metav1.FormatLabelSelector(p.Spec.Clusters.Selector), "<all>")
		}
		return []any{p.Metadata.Name, strings.Join(p.Spec.Applications, ","), strings.Join(p.Spec.Clusters.Names, ","),
			strings.Replace(selector, "<none>", "<all>", 1)}
	})
}

func works(all []status.Work) table.Table {
	return newTable("NAME APPLICATION OBJECTS APPLIED REASON", all, func(w status.Work) []any {
		applied, reason := "", ""
		for _, c := range w.Conditions {
			if c.Type == "Applied" {
				applied = string(c.Status)
				if c.Status != metav1.ConditionTrue {
					reason = c.Message
				}
			}
		}
		return []any{w.Name, w.Application, len(w.Objects), applied, reason}
	})
}

func objects(all []status.Work) table.Table {
	t := table.Table{Columns: strings.Fields("KIND NAMESPACE NAME SYNC HEALTH APPLICATION +WORK AGE REASON")}
	for _, w := range all {
		for _, o := range w.Objects {
			t.Rows = append(t.Rows, []any{o.Kind, o.Namespace, o.Name, o.Sync, o.Health, w.Application, w.Name, o.Since,
				o.Reason})
		}
	}
	return t
}

func tokens(all []httpapi.Token) table.Table {
	return newTable("ID CLUSTER USES EXPIRES", all, func(t httpapi.Token) []any {
		expires := t.Expires.UTC().Format(time.RFC3339)
		if !time.Now().Before(t.Expires) {
			expires += " (expired)"
		}
		return []any{t.ID, t.Cluster, t.Uses, expires}
	})
}

func revisions(all []status.Revision) table.Table {
	return newTable("APPLICATION REVISION CLUSTERS BY AGE CAUSE", all, func(r status.Revision) []any {
		number, clusters := any(r.Number), any(r.Clusters)
		if r.Number == 0 { // an action
			number, clusters = "", r.Cluster
		}
		return []any{r.Application, number, clusters, r.By, r.Created, r.Cause}
	})
}

// writeChanges prints the fields of two documents or revisions that differ.
func writeChanges(w io.Writer, changes []status.Change) {
	for _, c := range changes {
		fmt.Fprintln(w, table.Plain(c.Path))
		for _, side := range []struct{ mark, text string }{{"-", c.Before}, {"+", c.After}} {
			for line := range strings.Lines(side.text) {
				fmt.Fprintln(w, side.mark, table.Plain(strings.TrimRight(line, "\n")))
			}
		}
	}
}

// writePlan prints what documents would change.
func writePlan(w io.Writer, plan *status.Plan) error {
	for _, d := range plan.Documents {
		fmt.Fprintln(w, resource(d.Kind, d.Name), table.Plain(string(d.Action)))
		writeChanges(w, d.Changes)
	}
	rows := newTable("APPLICATION CHANGE CLUSTERS OBJECT", []any(nil), nil)
	for _, a := range plan.Applications {
		for _, o := range a.Objects {
			rows.Rows = append(rows.Rows, []any{a.Name, o.Action, few(o.Clusters), o.Object})
		}
		if a.More > 0 {
			rows.Rows = append(rows.Rows, []any{a.Name, "…", "…", fmt.Sprintf("and %d more", a.More)})
		}
	}
	if len(rows.Rows) > 0 {
		fmt.Fprintln(w)
		if err := rows.Write(w, false, time.Time{}); err != nil {
			return err
		}
	}
	for _, a := range plan.Applications {
		if a.Problem != "" {
			fmt.Fprintf(w, "\n%s: %s\n", resource("Application", a.Name), table.Plain(a.Problem))
		}
	}
	return nil
}

// few returns some names.
func few(names []string) string {
	if n := len(names); n > 4 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ","), n-3)
	}
	return strings.Join(names, ",")
}

func resource(kind, name string) string { return table.Plain(strings.ToLower(kind) + "/" + name) }
