// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package table prints tables in the form of kubectl.
package table

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Table is a table. The name of a column that only wide tables have begins with a "+".
type Table struct {
	Columns []string
	// Rows have a cell for each column. A [time.Time] is printed as its age.
	Rows [][]any
}

// Write prints the table, at a time from which ages are counted.
func (t Table) Write(w io.Writer, wide bool, now time.Time) error {
	var text bytes.Buffer
	out := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	line := func(cells []string) {
		kept := slices.Collect(func(yield func(string) bool) {
			for i, cell := range cells {
				if (wide || t.Columns[i][0] != '+') && !yield(cell) {
					return
				}
			}
		})
		fmt.Fprintln(out, strings.Join(kept, "\t"))
	}
	names := slices.Clone(t.Columns)
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], "+")
	}
	line(names)
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for i, value := range row {
			cells[i] = Plain(fmt.Sprint(value))
			if at, ok := value.(time.Time); ok && at.IsZero() {
				cells[i] = "<unknown>"
			} else if ok {
				cells[i] = duration.HumanDuration(now.Sub(at))
			}
			if i < len(row)-1 {
				cells[i] = cmp.Or(cells[i], "<none>")
			}
		}
		line(cells)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for row := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(row, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// Since returns the table with the rows that are not in an earlier one.
func (t Table) Since(earlier Table) Table {
	rows := slices.DeleteFunc(slices.Clone(t.Rows), func(row []any) bool {
		return slices.ContainsFunc(earlier.Rows, func(was []any) bool { return fmt.Sprint(was...) == fmt.Sprint(row...) })
	})
	return Table{Columns: t.Columns, Rows: rows}
}

// Plain returns a text in one line, without the control characters that could change a terminal.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
