// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package progress_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/progress"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// event returns an event at ms milliseconds after start.
func event(step progress.Step, work, cluster string, generation int64, ms int, detail string) progress.Event {
	return progress.Event{Step: step, Work: work, Cluster: cluster, Generation: generation,
		At: start.Add(time.Duration(ms) * time.Millisecond), Detail: detail}
}

// story has four works: one becomes available, one waits, one is in progress, and one is deleted.
var story = []progress.Event{
	event(progress.Sent, "b", "cluster1", 1, 0, "1 object"),
	event(progress.Sent, "a", "cluster2", 1, 1, "2 objects"),
	event(progress.Sent, "a", "cluster1", 1, 1, "2 objects"),
	event(progress.Waiting, "a", "cluster1", 1, 3, `namespaces "demo" not found`),
	event(progress.Applied, "b", "cluster1", 1, 5, ""),
	event(progress.Reported, "b", "cluster1", 1, 14, ""),
	event(progress.Status, "b", "cluster1", 1, 500, "2/2 ready"),
	event(progress.Sent, "z", "cluster2", 1, 1000, "1 object"),
	event(progress.Reported, "z", "cluster2", 1, 1010, ""),
	event(progress.Deleting, "z", "cluster2", 1, 2000, ""),
	event(progress.Removed, "z", "cluster2", 1, 2004, ""),
	event(progress.Gone, "z", "cluster2", 1, 3500, ""),
}

func TestTable(t *testing.T) {
	for _, tt := range []struct {
		reason string
		size   progress.Size
		want   string
	}{
		{"everything fits", progress.Size{Width: 100, Height: 24}, `
WORK  CLUSTER   SENT    APPLIED  REPORTED  STATE
a     cluster1  1.0 ms  -        -         waiting: namespaces "demo" not found
b     cluster1  0.0 ms  +5.0 ms  +14 ms    available, 2/2 ready
a     cluster2  1.0 ms  -        -         sent
z     cluster2  2.0 s   +4.0 ms  +1.5 s    gone`},
		{"a narrow terminal", progress.Size{Width: 62, Height: 24}, `
WORK  CLUSTER   SENT    APPLIED  REPORTED  STATE
a     cluster1  1.0 ms  -        -         waiting: namespa...
b     cluster1  0.0 ms  +5.0 ms  +14 ms    available, 2/2 r...
a     cluster2  1.0 ms  -        -         sent
z     cluster2  2.0 s   +4.0 ms  +1.5 s    gone`},
		{"narrower than the columns", progress.Size{Width: 20, Height: 24}, `
WORK  CLUSTER   S...
a     cluster1  1...
b     cluster1  0...
a     cluster2  1...
z     cluster2  2...`},
		{"few lines: rows that are done go first", progress.Size{Width: 100, Height: 4}, `
WORK  CLUSTER   SENT    APPLIED  REPORTED  STATE
a     cluster1  1.0 ms  -        -         waiting: namespaces "demo" not found
a     cluster2  1.0 ms  -        -         sent
... and 2 more`},
		{"fewer lines than rows that are not done", progress.Size{Width: 100, Height: 3}, `
WORK  CLUSTER   SENT    APPLIED  REPORTED  STATE
a     cluster1  1.0 ms  -        -         waiting: namespaces "demo" not found
... and 3 more`},
		{"colors", progress.Size{Width: 60, Height: 24, Color: true}, "\n" +
			"\x1b[1mWORK  CLUSTER   SENT    APPLIED  REPORTED  STATE\x1b[0m\n" +
			"a     cluster1  1.0 ms  -        -         \x1b[33mwaiting: names...\x1b[0m\n" +
			"b     cluster1  0.0 ms  +5.0 ms  +14 ms    \x1b[32mavailable, 2/2...\x1b[0m\n" +
			"a     cluster2  1.0 ms  -        -         sent\n" +
			"z     cluster2  2.0 s   +4.0 ms  +1.5 s    \x1b[2mgone\x1b[0m"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			b := progress.NewBoard(start)
			for _, e := range story {
				b.Add(e)
			}
			got := b.Table(tt.size)
			for i := range got {
				got[i] = strings.TrimRight(got[i], " ")
			}
			if diff := cmp.Diff(strings.Split(strings.TrimPrefix(tt.want, "\n"), "\n"), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLines(t *testing.T) {
	want := []string{
		`03:04:05.000  sent      b -> cluster1: 1 object`,
		`03:04:05.001  sent      a -> cluster2: 2 objects`,
		`03:04:05.001  sent      a -> cluster1: 2 objects`,
		`03:04:05.003  waiting   a <- cluster1: namespaces "demo" not found`,
		`03:04:05.005  applied   b on cluster1`,
		`03:04:05.014  reported  b <- cluster1 after 14 ms`,
		`03:04:05.500  status    b <- cluster1: 2/2 ready`,
		`03:04:06.000  sent      z -> cluster2: 1 object`,
		`03:04:06.010  reported  z <- cluster2 after 10 ms`,
		`03:04:07.000  delete    z -> cluster2`,
		`03:04:07.004  removed   z on cluster2`,
		`03:04:08.500  gone      z <- cluster2 after 1.5 s`,
	}
	b := progress.NewBoard(start)
	var got []string
	for _, e := range story {
		if b.Add(e) {
			got = append(got, b.Line(e))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBoardIgnores(t *testing.T) {
	const w, c = "w", "c"
	sent := event(progress.Sent, w, c, 1, 0, "")
	for _, tt := range []struct {
		reason string
		events []progress.Event
		last   bool // result of Add for the last event
		step   progress.Step
	}{
		{"applied again", []progress.Event{sent, event(progress.Applied, w, c, 1, 1, ""),
			event(progress.Applied, w, c, 1, 2, "")}, false, progress.Applied},
		{"the same reason to wait", []progress.Event{sent, event(progress.Waiting, w, c, 1, 1, "x"),
			event(progress.Waiting, w, c, 1, 2, "x")}, false, progress.Waiting},
		{"another reason to wait", []progress.Event{sent, event(progress.Waiting, w, c, 1, 1, "x"),
			event(progress.Waiting, w, c, 1, 2, "y")}, true, progress.Waiting},
		{"an old reason to wait", []progress.Event{sent, event(progress.Applied, w, c, 1, 1, ""),
			event(progress.Waiting, w, c, 1, 2, "x")}, false, progress.Applied},
		{"a report of an earlier version", []progress.Event{sent, event(progress.Sent, w, c, 2, 1, ""),
			event(progress.Reported, w, c, 1, 2, "")}, false, progress.Sent},
		{"applied, seen after the report of it", []progress.Event{sent, event(progress.Reported, w, c, 1, 2, ""),
			event(progress.Applied, w, c, 1, 1, "")}, true, progress.Reported},
		{"applied, seen after the deletion", []progress.Event{sent, event(progress.Deleting, w, c, 1, 1, ""),
			event(progress.Applied, w, c, 1, 2, "")}, false, progress.Deleting},
		{"gone, after the deletion counted as a version", []progress.Event{sent, event(progress.Deleting, w, c, 1, 1, ""),
			event(progress.Removed, w, c, 2, 2, ""), event(progress.Gone, w, c, 1, 3, "")}, true, progress.Gone},
		{"an update after a report", []progress.Event{sent, event(progress.Reported, w, c, 1, 1, ""),
			event(progress.Sent, w, c, 2, 2, "")}, true, progress.Sent},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			b := progress.NewBoard(start)
			var last bool
			for _, e := range tt.events {
				last = b.Add(e)
			}
			if last != tt.last || b.Rows()[0].Step != tt.step {
				t.Errorf("Add = %v, then %+v", last, b.Rows()[0])
			}
		})
	}
}
