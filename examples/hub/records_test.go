// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
	"testing"
)

// TestRecords checks the records of documents, applications and rollouts: each change once.
func TestRecords(t *testing.T) {
	s := newSite(t, "c1")
	s.options.Dir = t.TempDir()
	s.write("c1.yaml", cluster("c1", ""))
	s.write("shop.yaml", application("shop", "a=one"))
	s.write("p.yaml", placement("p", "shop", all))
	s.start()
	for _, step := range []struct {
		reason, file, content string
		want                  []string // records without their time
	}{
		{"the first documents", "", "", []string{
			`INFO msg="Accepted documents" cause="the documents have changed" documents=3`,
			`INFO msg="Started a rollout" application=shop revision=1 clusters=1 cause="the documents have changed"`,
			`INFO msg="Deployed an application" application=shop revision=1`,
		}},
		{"invalid documents", "shop.yaml", "a: [", []string{
			`ERROR msg="Rejected documents, the previous documents stay in effect" err="`,
		}},
		{"an update", "shop.yaml", application("shop", "a=two"), []string{
			`INFO msg="Accepted documents" cause="the documents have changed" documents=3`,
			`INFO msg="Started an update" application=shop from=1 revision=2 clusters=1 cause="the documents have changed"`,
			`INFO msg="Deployed an application" application=shop revision=2`,
		}},
		{"the end", "shop.yaml", application("other", "a=one"), []string{
			`ERROR msg="Rejected documents, the previous documents stay in effect" err="`,
		}},
	} {
		before := len(s.said.String())
		if step.file != "" {
			s.write(step.file, step.content)
		} else {
			before = 0
		}
		for _, want := range step.want {
			eventually(t, step.reason+": "+want, func() bool { return strings.Contains(s.said.String()[before:], want) })
			if n := strings.Count(s.said.String()[before:], want); n != 1 {
				t.Errorf("%s: %d times %s", step.reason, n, want)
			}
		}
	}
	record := regexp.MustCompile(`^time=\S+Z level=(INFO|ERROR) msg=`)
	for line := range strings.Lines(s.said.String()) {
		if line != "\n" && !record.MatchString(line) {
			t.Errorf("no record: %q", line)
		}
	}
}
