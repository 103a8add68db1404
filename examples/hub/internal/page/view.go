// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/internal/cut"
)

// These limits bound a page for any state.
const (
	// MaxText is the maximum number of bytes shown of a name, reason or message.
	MaxText = 512
	// MaxList is the maximum number of labels, conditions or objects shown of one item.
	MaxList = 100
	// rows is the number of rows of a page of a list, and worst of a list of the overview.
	rows, worst = 50, 10
)

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"text": func(s any) string { return cut.Text(fmt.Sprint(s), MaxText) },
	"long": func(s string) string { return cut.Text(s, 4*MaxText) }, "instant": instant, "mark": mark,
	"lower": func(s any) string { return strings.ToLower(cut.Text(fmt.Sprint(s), 20)) }, "labels": labels,
	"first": first, "more": more, "columns": func(titles ...string) []string { return titles },
	"part": func(v *view, list any) any { return map[string]any{"View": v, "List": list} },
}).ParseFS(files, "page.html"))

// view is the model of the template of a page. Kind is the name of the template of its content.
type view struct {
	Kind, Heading, Root string
	status.Hub
	Query   url.Values
	MayEdit bool
	Failed  string // why the requested change failed

	// The content, as far as the page has it.
	Apps, Broken, Busy, Agents *list
	Application                *status.Application
	Cluster                    *status.Cluster
	Placement                  *status.Placement
	Works                      []status.Work
	Changes                    []status.Change
	From, To                   int

	request *http.Request
	hub     Hub
}

// list is a page of a list.
type list struct {
	Rows           any
	Noun           string
	Counts         status.Counts // of all that match, without the selection of a health
	Shown, Matches int
	Page, Pages    int
}

// item is what a list shows of an element.
type item struct {
	health status.Health
	order  string // of elements with the same health
	text   string // of the filter
}

// listOf returns the page of a list that the query selects, the worst elements first.
func listOf[T any](v *view, noun string, all []T, most int, of func(*T) item) *list {
	type element struct {
		of *T
		item
	}
	out, health := &list{Noun: noun, Counts: status.Counts{}}, status.Health(v.Query.Get("health"))
	wanted := strings.Fields(strings.ToLower(v.Query.Get("q")))
	var found []element
	for i := range all {
		it := of(&all[i])
		lower := strings.ToLower(it.text)
		if slices.ContainsFunc(wanted, func(word string) bool { return !strings.Contains(lower, word) }) {
			continue
		}
		if out.Counts[it.health]++; health == "" || it.health == health {
			found = append(found, element{&all[i], it})
		}
	}
	slices.SortStableFunc(found, func(a, b element) int {
		return cmp.Or(b.health.Rank()-a.health.Rank(), strings.Compare(a.order, b.order))
	})
	number, _ := strconv.Atoi(v.Query.Get("page"))
	out.Matches, out.Pages = len(found), max(1, (len(found)+most-1)/most)
	out.Page = min(max(number, 1), out.Pages)
	begin := (out.Page - 1) * most
	shown := []T{}
	for _, e := range found[begin:min(begin+most, len(found))] {
		shown = append(shown, *e.of)
	}
	out.Rows, out.Shown = shown, len(shown)
	return out
}

func ofApplication(a *status.Application) item {
	return item{a.Health, string(a.Sync) + "\n" + a.Name, words(a.Name, a.Status, a.Revision)}
}

func ofCluster(c *status.Cluster) item {
	return item{c.Health, c.Name, words(c.Name, c.Status, string(c.Agent), strings.Join(labels(c.Labels), " "))}
}

func ofPlacement(p *status.Placement) item {
	return item{p.Health, p.Cluster + "\n" + p.Application, words(p.Cluster, p.Status, p.Application, p.Revision)}
}

func words(name string, s status.Status, more ...string) string {
	return strings.Join(append(more, name, string(s.Sync), string(s.Health), s.Reason), "\n")
}

// overview shows the numbers, and the worst applications and clusters.
func (v *view) overview() error {
	v.Kind, v.Heading, v.Query = "overview", "Overview", url.Values{}
	fine := func(h status.Health) bool { return h.Rank() < status.Unknown.Rank() }
	v.Apps = listOf(v, "applications", v.Hub.Applications, worst, ofApplication)
	v.Agents = listOf(v, "clusters", v.Hub.Clusters, worst, ofCluster)
	all := v.Hub.Applications
	broken := slices.DeleteFunc(slices.Clone(all), func(a status.Application) bool { return fine(a.Health) })
	busy := slices.DeleteFunc(slices.Clone(all), func(a status.Application) bool {
		return !fine(a.Health) || a.Health == status.Healthy && a.Sync == status.Synced
	})
	v.Broken = listOf(v, "applications", broken, worst, ofApplication)
	v.Busy = listOf(v, "applications", busy, worst, ofApplication)
	lost := slices.DeleteFunc(slices.Clone(v.Hub.Clusters), func(c status.Cluster) bool { return fine(c.Health) })
	down := listOf(v, "clusters", lost, worst, ofCluster)
	v.Agents.Rows, v.Agents.Shown, v.Agents.Matches = down.Rows, down.Shown, down.Matches
	return nil
}

func (v *view) applications() error {
	v.Kind, v.Heading = "applications", "Applications"
	v.Apps = listOf(v, "applications", v.Hub.Applications, rows, ofApplication)
	return nil
}

func (v *view) clusters() error {
	v.Kind, v.Heading = "clusters", "Clusters"
	v.Apps = listOf(v, "clusters", v.Hub.Clusters, rows, ofCluster)
	return nil
}

func (v *view) history() error {
	v.Kind, v.Heading = "history", "History"
	revisions, err := v.hub.History(v.request.Context())
	v.Apps = listOf(v, "entries", revisions, rows, func(r *status.Revision) item {
		return item{text: strings.Join([]string{r.Application, r.Cluster, strconv.Itoa(r.Number), r.Cause, r.By}, "\n")}
	})
	return err
}

func (v *view) application() error {
	a, ok := v.hub.Application(v.request.Context(), v.request.PathValue("name"))
	if !ok {
		return errNotFound
	}
	v.Kind, v.Heading, v.Application = "application", a.Name, &a
	v.Apps = listOf(v, "clusters", a.Placements, rows, ofPlacement)
	v.From, _ = strconv.Atoi(v.Query.Get("from"))
	v.To, _ = strconv.Atoi(v.Query.Get("to"))
	if v.From == 0 || v.To == 0 {
		return nil
	}
	var err error
	if v.Changes, err = v.hub.Diff(v.request.Context(), a.Name, v.From, v.To); err != nil {
		return fmt.Errorf("%w: %w", errNotFound, err) // deleted in the meantime
	}
	return nil
}

func (v *view) cluster() error {
	c, ok := v.hub.Cluster(v.request.Context(), v.request.PathValue("name"))
	if !ok {
		return errNotFound
	}
	v.Kind, v.Heading, v.Cluster = "cluster", c.Name, &c
	v.Apps = listOf(v, "applications", c.Placements, rows, ofPlacement)
	for _, w := range c.Works { // the others are on the pages of their applications
		if !slices.ContainsFunc(c.Placements, func(p status.Placement) bool { return p.Application == w.Application }) {
			v.Works = append(v.Works, w)
		}
	}
	return nil
}

// placement shows an application on a cluster, with its objects.
func (v *view) placement() error {
	name, cluster := v.request.PathValue("name"), v.request.PathValue("cluster")
	c, _ := v.hub.Cluster(v.request.Context(), cluster)
	at := slices.IndexFunc(c.Placements, func(p status.Placement) bool { return p.Application == name })
	if at < 0 {
		return errNotFound
	}
	v.Kind, v.Heading, v.Placement = "placement", name+" on "+cluster, &c.Placements[at]
	for _, w := range c.Works {
		if w.Application == name {
			v.Works = append(v.Works, w)
		}
	}
	return nil
}

// With returns the address of the page with another parameter; "" removes it. Without page, the list
// begins at its first page.
func (v *view) With(name string, value any) template.URL {
	query := maps.Clone(v.Query)
	query.Del("do")
	query.Del("done")
	if query.Del("page"); name != "" && fmt.Sprint(value) != "" {
		query.Set(name, fmt.Sprint(value))
	} else {
		query.Del(name)
	}
	return template.URL("?" + query.Encode()) // escaped
}

// Connections counts the clusters by the connection of their agents.
func (v *view) Connections() map[status.Connection]int {
	out := map[status.Connection]int{}
	for i := range v.Hub.Clusters {
		out[v.Hub.Clusters[i].Agent]++
	}
	return out
}

// Healths returns the healths that a list has, the worst first.
func (l *list) Healths() (out []status.Health) {
	for _, h := range slices.Backward(status.Healths) {
		if l.Counts[h] > 0 {
			out = append(out, h)
		}
	}
	return out
}

// Next and Previous return the numbers of the neighboring pages, or 0.
func (l *list) Next() int     { return (l.Page + 1) % (l.Pages + 1) }
func (l *list) Previous() int { return l.Page - 1 }

// instant returns a time in UTC, readable for users and HTML; empty for the zero time.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// marks are the words as characters, for users who cannot distinguish colors.
var marks = map[string]string{
	"Healthy": "✓", "Suspended": "‖", "Progressing": "…", "Unknown": "?", "Missing": "∅", "Degraded": "✕", "Synced": "✓",
	"OutOfSync": "↻", "Connected": "✓", "Silent": "?", "NeverJoined": "∅", "Revoked": "✕",
}

func mark(word any) string { return cmp.Or(marks[fmt.Sprint(word)], "?") }

// labels returns labels as key=value, sorted.
func labels(of map[string]string) []string {
	all := make([]string, 0, len(of))
	for _, key := range slices.Sorted(maps.Keys(of)) {
		all = append(all, key+"="+of[key])
	}
	return all
}

// first returns the shown part of a list of any type: templates cannot call generic functions.
func first(list any) any {
	v := reflect.ValueOf(list)
	return v.Slice(0, min(v.Len(), MaxList)).Interface()
}

// more returns the number of list elements that are not shown; empty if all are shown.
func more(length int) string {
	if length <= MaxList {
		return ""
	}
	return fmt.Sprintf("and %d more", length-MaxList)
}
