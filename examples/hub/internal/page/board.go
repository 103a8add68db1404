// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"fmt"
	"html"
	"html/template"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

//go:embed page.html page.css page.js icon.svg
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"text": text, "instant": instant, "mark": mark, "class": class, "labels": labels, "first": first, "more": more,
	"conditionTone": conditionTone, "objects": objectsLine,
}).ParseFS(files, "page.html"))

// maxGone is the maximum number of removed rows that are recorded. A browser that missed more of
// them gets the whole page.
const maxGone = 1000

// board has the page in elements, each with the version of its last change. The version of a
// browser determines the elements that it lacks, so nothing is kept for single browsers.
//
// The ID of an element is a word, or for a row the names of the table and of the row with a slash
// between them.
type board struct {
	version  uint64
	elements map[string]*element
	rows     []string          // IDs in order
	gone     map[string]uint64 // removed rows, with the version of the removal
	floor    uint64            // gone is complete for this version and newer ones
}

type element struct {
	model   any
	html    string
	text    string // see plain; made when a filter needs it
	version uint64
}

// has reports whether the text that a browser shows contains all words.
func (e *element) has(words []string) bool {
	if len(words) > 0 && e.text == "" {
		e.text = plain(e.html)
	}
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(e.text, word) })
}

// section is a table of the page.
type section struct {
	ID, Title, noun string
	Columns         []string
	Summary, Rows   template.HTML
}

// sections are the tables without their content, in the order of the page. The ID is also the name
// of the template of a row.
var sections = []section{
	{ID: "clusters", Title: "Clusters", noun: "cluster", Columns: []string{"Cluster", "State", "Reason", "Labels"}},
	{ID: "applications", Title: "Applications", noun: "application",
		Columns: []string{"Application", "Revision", "State", "Rollout", "Reason"}},
	{ID: "placements", Title: "Applications on clusters", noun: "placement",
		Columns: []string{"Application", "Cluster", "Revision", "State", "Reason"}},
	{ID: "works", Title: "Works", noun: "work", Columns: []string{"Work", "Application", "Conditions", "Objects"}},
}

// placed is a placement with its application.
type placed struct {
	Application string
	Placement
}

// show sets the state. It renders the changed elements, and increments the version if there are
// any.
func (b *board) show(s State) error {
	next := b.version + 1
	seen, tones := map[string]bool{}, map[string][]Tone{}
	var failed error
	put := func(kind, id string, model any) {
		seen[id] = true
		failed = cmp.Or(failed, b.put(kind, id, model, next))
	}
	row := func(table string, tone Tone, model any, name ...string) {
		tones[table] = append(tones[table], tone)
		put(table, rowID(table, name...), model)
	}
	put("input", "input", s.Input)
	for _, c := range s.Clusters {
		row("clusters", c.Status.Tone, c, c.Name)
	}
	for _, a := range s.Applications {
		placements := a.Placements
		a.Placements = nil // rows of their own
		row("applications", a.Status.Tone, a, a.Name)
		for _, p := range placements {
			row("placements", p.Status.Tone, placed{a.Name, p}, a.Name, p.Cluster)
		}
	}
	for _, w := range s.Works {
		row("works", workTone(w), w, w.Cluster, w.Name)
	}
	for _, s := range sections {
		put("summary", s.ID+".summary", count(tones[s.ID], s.noun, "good", "bad"))
	}
	b.settle(seen, next)
	return failed
}

// put renders one element if its model has changed.
func (b *board) put(kind, id string, model any, version uint64) error {
	old := b.elements[id]
	if old != nil && reflect.DeepEqual(old.model, model) {
		return nil
	}
	html, err := render(kind, id, model)
	if err != nil {
		return err
	}
	if old != nil && old.html == html {
		old.model = model
		return nil
	}
	if old == nil && strings.Contains(id, "/") {
		b.rows = append(b.rows, id)
		delete(b.gone, id)
	}
	b.elements[id] = &element{model: model, html: html, version: version}
	b.version = version
	return nil
}

// settle removes the rows that were not seen, and sorts the others.
func (b *board) settle(seen map[string]bool, version uint64) {
	b.rows = slices.DeleteFunc(b.rows, func(id string) bool {
		if !seen[id] {
			delete(b.elements, id)
			b.gone[id] = version
			b.version = version
		}
		return !seen[id]
	})
	if b.version != version {
		return
	}
	slices.Sort(b.rows)
	if len(b.gone) > maxGone {
		clear(b.gone)
		b.floor = version
	}
}

// render executes the template of a kind. The result is a whole HTML element.
func render(kind, id string, model any) (string, error) {
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, kind, struct{ ID, Model any }{id, model}); err != nil {
		return "", fmt.Errorf("rendering %s: %w", id, err)
	}
	return out.String(), nil
}

var tag = regexp.MustCompile(`<[^>]*>`)

// plain returns the text that a browser shows for rendered HTML, in lower case: its textContent.
// Templates escape everything except tags.
func plain(rendered string) string {
	return strings.ToLower(html.UnescapeString(tag.ReplaceAllString(rendered, "")))
}

// rowID returns the ID of a row, which is unique for its names: separators in names are escaped,
// and the part of a long name that is not shown is hashed.
func rowID(table string, names ...string) string {
	for _, name := range names {
		if len(name) > MaxText {
			name = fmt.Sprintf("%s %x", name[:MaxText], sha256.Sum256([]byte(name)))
		}
		table += "/" + url.PathEscape(name)
	}
	return table
}

// update is a message to a browser, as JSON.
type update struct {
	// Reset is whether Set is the whole page, so that rows which are not in it are removed.
	Reset bool     `json:"reset,omitempty"`
	Set   []string `json:"set,omitempty"`
	Gone  []string `json:"gone,omitempty"`
}

// since returns the changes after a version, or the whole page for a version that the board never
// had.
func (b *board) since(version uint64, known bool) update {
	if known && version == b.version {
		return update{}
	}
	u := update{Reset: !known || version < b.floor || version > b.version}
	ids := []string{"input"}
	for _, s := range sections {
		ids = append(ids, s.ID+".summary")
	}
	for _, id := range append(ids, b.rows...) {
		if e := b.elements[id]; e != nil && (u.Reset || e.version > version) {
			u.Set = append(u.Set, e.html)
		}
	}
	if !u.Reset {
		for id, went := range b.gone {
			if went > version {
				u.Gone = append(u.Gone, id)
			}
		}
		slices.Sort(u.Gone)
	}
	return u
}

// view is the model of the template of the whole page.
type view struct {
	Title, Version, Query, Matches string
	Input                          template.HTML
	Sections                       []section
}

// page returns the whole page. Rows that do not contain all words of the query are hidden, so a
// browser can show them without a request.
func (b *board) page(title, version, query string) view {
	v := view{Title: title, Version: version, Query: query, Input: b.html("input")}
	wanted, shown := strings.Fields(strings.ToLower(query)), 0
	for _, s := range sections {
		var rows strings.Builder
		for _, id := range b.rows {
			if !strings.HasPrefix(id, s.ID+"/") {
				continue
			}
			if e := b.elements[id]; e.has(wanted) {
				shown++
				rows.WriteString(e.html)
			} else {
				rows.WriteString("<tr hidden" + strings.TrimPrefix(e.html, "<tr"))
			}
		}
		s.Summary, s.Rows = b.html(s.ID+".summary"), template.HTML(rows.String()) // from the templates of this package
		v.Sections = append(v.Sections, s)
	}
	v.Matches = fmt.Sprintf("%d of %d rows", shown, len(b.rows))
	return v
}

// html returns an element as a part of a template. The templates of this package have rendered and
// escaped it.
func (b *board) html(id string) template.HTML {
	if e := b.elements[id]; e != nil {
		return template.HTML(e.html)
	}
	return ""
}

// These limits bound the page for any state.
const (
	// MaxText is the maximum number of bytes shown of a name, reason or message.
	MaxText = 512
	// MaxList is the maximum number of labels, conditions or objects shown of one item.
	MaxList = 100
)

// text shortens s to MaxText bytes, between characters.
func text(s string) string {
	if len(s) <= MaxText {
		return s
	}
	return strings.ToValidUTF8(s[:MaxText], "") + "…"
}

// instant returns a time in UTC, readable for users and HTML; empty for the zero time.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// marks are the tones as characters, for users who cannot distinguish colors.
var marks = map[Tone]string{Good: "✓", Busy: "…", Bad: "✕"}

func mark(t Tone) string { return cmp.Or(marks[t], "?") }

// class returns the tone as a class of the style sheet.
func class(t Tone) string {
	if marks[t] == "" {
		return "unknown"
	}
	return string(t)
}

// labels returns the labels of a cluster as key=value, sorted.
func labels(c Cluster) []string {
	all := make([]string, 0, len(c.Labels))
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
		all = append(all, key+"="+c.Labels[key])
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

// conditionTones are the tones of conditions. Other types, which the work API does not define, are
// Unknown.
var conditionTones = map[string]map[metav1.ConditionStatus]Tone{
	workv1.WorkApplied:     {metav1.ConditionTrue: Good, metav1.ConditionFalse: Bad},
	workv1.WorkAvailable:   {metav1.ConditionTrue: Good, metav1.ConditionFalse: Bad},
	workv1.WorkDegraded:    {metav1.ConditionTrue: Bad, metav1.ConditionFalse: Good},
	workv1.WorkProgressing: {metav1.ConditionTrue: Busy, metav1.ConditionFalse: Good},
}

func conditionTone(c metav1.Condition) Tone { return conditionTones[c.Type][c.Status] }

func objectTones(w Work) (tones []Tone) {
	for _, o := range w.Objects {
		tones = append(tones, o.Health.Tone)
	}
	return tones
}

// workTone returns the worst tone of the conditions and objects of a work: bad, busy, good, or
// unknown.
func workTone(w Work) Tone {
	tones := append(objectTones(w), Unknown)
	for _, c := range w.Conditions {
		tones = append(tones, conditionTone(c))
	}
	order := []Tone{Good, Busy, Bad}
	return slices.MaxFunc(tones, func(a, b Tone) int { return slices.Index(order, a) - slices.Index(order, b) })
}

// objectsLine summarizes the objects of a work in a line.
func objectsLine(w Work) string { return count(objectTones(w), "object", "healthy", "unhealthy") }

// count returns the number of tones, and the numbers that are bad, in progress, good and unknown.
func count(tones []Tone, noun, good, bad string) string {
	if len(tones) == 0 {
		return "no " + noun + "s"
	}
	numbers := map[string]int{}
	for _, t := range tones {
		numbers[class(t)]++
	}
	if len(tones) > 1 {
		noun += "s"
	}
	parts := []string{fmt.Sprintf("%d %s", len(tones), noun)}
	for _, part := range []struct{ class, word string }{
		{"bad", bad}, {"busy", "in progress"}, {"good", good}, {"unknown", "unknown"},
	} {
		if n := numbers[part.class]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, part.word))
		}
	}
	return strings.Join(parts, " · ")
}
