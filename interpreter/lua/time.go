// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"strconv"
	"strings"
	"time"

	glua "github.com/yuin/gopher-lua"
	"k8s.io/utils/clock"
)

// forbiddenOS are the functions of the library os that do not return the time.
var forbiddenOS = []string{
	"clock", "difftime", "execute", "exit", "getenv", "remove", "rename", "setenv", "setlocale", "tmpname",
}

func (m *meter) openTime(now clock.PassiveClock) *glua.LTable {
	module := m.state.NewTable()
	for _, name := range forbiddenOS {
		m.forbid(module, name, "os."+name)
	}
	m.set(module, "time", func(l *glua.LState) int {
		at := now.Now()
		if l.GetTop() > 0 {
			at = timeOf(l, l.CheckTable(1))
		}
		l.Push(glua.LNumber(at.Unix()))
		return 1
	})
	m.set(module, "date", func(l *glua.LState) int {
		layout, at := l.OptString(1, "%c"), now.Now()
		if l.GetTop() > 1 {
			at = time.Unix(l.CheckInt64(2), 0)
		}
		if rest, ok := strings.CutPrefix(layout, "!"); ok {
			layout, at = rest, at.UTC()
		}
		if strings.HasPrefix(layout, "*t") {
			l.Push(m.fields(at))
			return 1
		}
		m.check(m.spend(len(layout)/8) && m.text(maxDate*len(layout)))
		l.Push(glua.LString(date(at, layout)))
		return 1
	})
	return module
}

// timeOf returns the time of a table with year, month and day.
func timeOf(l *glua.LState, table *glua.LTable) time.Time {
	field := func(name string, otherwise int) int {
		n, ok := table.RawGetString(name).(glua.LNumber)
		if !ok && otherwise < 0 {
			l.ArgError(1, "the field "+name+" is missing or not a number")
		}
		if !ok {
			return otherwise
		}
		return int(n)
	}
	return time.Date(field("year", -1), time.Month(field("month", -1)), field("day", -1),
		field("hour", 12), field("min", 0), field("sec", 0), 0, time.Local)
}

func (m *meter) fields(at time.Time) *glua.LTable {
	const members = 9
	m.check(m.charge(tableCost + members*memberCost))
	table := m.state.CreateTable(0, members)
	for name, n := range map[string]int{
		"year": at.Year(), "month": int(at.Month()), "day": at.Day(), "hour": at.Hour(), "min": at.Minute(),
		"sec": at.Second(), "wday": int(at.Weekday()) + 1, "yday": at.YearDay(),
	} {
		table.RawSetString(name, glua.LNumber(n))
	}
	table.RawSetString("isdst", glua.LBool(at.IsDST()))
	return table
}

// layouts are the Go layouts of the letters of strftime.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'c': "02 Jan 06 15:04 MST", 'd': "02",
	'F': time.DateOnly, 'H': "15", 'I': "03", 'm': "01", 'M': "04", 'p': "PM", 'P': "pm", 'S': "05",
	'T': time.TimeOnly, 'x': "15/04/05", 'X': time.TimeOnly, 'y': "06", 'Y': "2006", 'z': "-0700", 'Z': "MST",
}

// maxDate is the maximum length of the output for a byte of a format.
const maxDate = 32

func date(at time.Time, layout string) string {
	var out strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 == len(layout) {
			out.WriteByte(layout[i])
			continue
		}
		i++
		c := layout[i]
		switch text, ok := layouts[c]; {
		case ok:
			out.WriteString(at.Format(text))
		case c == 'w':
			out.WriteString(strconv.Itoa(int(at.Weekday())))
		case c == 'j':
			out.WriteString(strconv.Itoa(at.YearDay()))
		case c == '%':
			out.WriteByte('%')
		default:
			out.WriteByte('%')
			out.WriteByte(c)
		}
	}
	return out.String()
}
