// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Size is the space for a table.
type Size struct {
	// Width and Height are in characters. Lines do not wrap and the table does not scroll.
	Width, Height int
	// Color allows ANSI colors.
	Color bool
}

// ANSI attributes of states.
const (
	dim    = "2"
	green  = "32"
	yellow = "33"
	bold   = "1"
)

var header = []string{"WORK", "CLUSTER", "SENT", "APPLIED", "REPORTED", "STATE"}

// Table returns the lines of the table. SENT is relative to the start, APPLIED and REPORTED are
// relative to SENT. If not all rows fit, the first rows that are done are omitted, and a last line
// has their number.
func (b *Board) Table(s Size) []string {
	rows, hidden := b.visible(s.Height - 1)
	cells := make([][]string, len(rows))
	widths := make([]int, len(header)-1)
	for i := range widths {
		widths[i] = len(header[i])
	}
	for i, r := range rows {
		cells[i] = b.cells(r)
		for j := range widths {
			widths[j] = max(widths[j], utf8.RuneCountInString(cells[i][j]))
		}
	}
	lines := []string{paint(fit(join(header, widths), s.Width), bold, s.Color)}
	for i, r := range rows {
		state, attribute := r.state()
		rest := join(append(cells[i], ""), widths)
		if utf8.RuneCountInString(rest) >= s.Width {
			lines = append(lines, fit(rest, s.Width))
			continue
		}
		lines = append(lines, rest+paint(fit(state, s.Width-utf8.RuneCountInString(rest)), attribute, s.Color))
	}
	if hidden > 0 {
		lines = append(lines, fit(fmt.Sprintf("... and %d more", hidden), s.Width))
	}
	return lines
}

// visible chooses the rows for a number of lines.
func (b *Board) visible(lines int) (rows []*Row, hidden int) {
	if len(b.rows) <= lines {
		return b.rows, 0
	}
	lines = max(lines-1, 0) // one line has the number of hidden rows
	hidden = len(b.rows) - lines
	drop := hidden
	for _, r := range b.rows {
		if drop > 0 && r.done() {
			drop--
			continue
		}
		rows = append(rows, r)
	}
	return rows[:min(lines, len(rows))], hidden
}

func (r *Row) done() bool { return !r.Reported.IsZero() }

func (b *Board) cells(r *Row) []string {
	since := func(from, to time.Time, sign string) string {
		if to.IsZero() || from.IsZero() {
			return "-"
		}
		return sign + Short(max(0, to.Sub(from)))
	}
	return []string{
		r.Work, r.Cluster, since(b.start, r.Sent, ""), since(r.Sent, r.Applied, "+"), since(r.Sent, r.Reported, "+"),
	}
}

// state returns the last column and its color.
func (r *Row) state() (text, attribute string) {
	switch r.Step {
	case Waiting:
		return "waiting: " + r.Note, yellow
	case Reported:
		if r.Note != "" {
			return "available, " + r.Note, green
		}
		return "available", green
	case Deleting:
		return "deleting", yellow
	case Gone:
		return "gone", dim
	default:
		return r.Step.String(), ""
	}
}

func join(cells []string, widths []int) string {
	var line strings.Builder
	for i, c := range cells {
		line.WriteString(c)
		if i < len(widths) {
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2))
		}
	}
	return line.String()
}

// fit cuts a text to a width, on one line.
func fit(text string, width int) string {
	text = strings.Join(strings.FieldsFunc(text,
		func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' || r == '\x1b' }), " ")
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	if width < 4 {
		return string(runes[:max(width, 0)])
	}
	return string(runes[:width-3]) + "..."
}

func paint(text, attribute string, color bool) string {
	if !color || attribute == "" || text == "" {
		return text
	}
	return "\x1b[" + attribute + "m" + text + "\x1b[0m"
}
