// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// incident is a failure as a person on call sees it, with only the page, the commands, the metrics
// and the log.
type incident struct {
	name         string
	fail, repair func()
	// looks are the pages and commands to read, at most three. Each must show its texts: the cause,
	// the object to blame, and the remedy. The first text is gone after the repair.
	looks map[string][]string
	// metric matches the metric of an alert.
	metric string
	// failed and recovered are records of the log of a process. It logs each once.
	logs              *process
	failed, recovered string
}

// onCall is a hub during incidents.
type onCall struct {
	*hub
	t *testing.T
}

// look returns a page of the hub, or the output of one of its commands.
func (o *onCall) look(what string) (string, error) {
	if strings.HasPrefix(what, "/") {
		code, text, err := o.call(http.MethodGet, what)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("status %d: %.500s", code, text)
		}
		return html.UnescapeString(text), err
	}
	ctx, cancel := context.WithTimeout(o.t.Context(), e2etest.Patience)
	defer cancel()
	line := append(strings.Fields(what)[1:], "--api", o.url)
	if o.store != "" {
		line = append(line, "--token-file", filepath.Join(o.store, "admin.token"))
	}
	out, err := exec.CommandContext(ctx, o.program, line...).CombinedOutput()
	return string(out), err
}

// shows waits until a look has texts, or lacks the first one.
func (o *onCall) shows(what string, shown bool, texts ...string) {
	o.t.Helper()
	if !shown {
		texts = texts[:1]
	}
	eventually(o.t, what, func() error {
		got, err := o.look(what)
		if err != nil && (shown || got == "") { // the page of a removed application is not found
			return fmt.Errorf("%w: %s", err, got)
		}
		for _, text := range texts {
			if strings.Contains(got, text) != shown {
				return fmt.Errorf("%q: want %t: %.6000s", text, shown, got)
			}
		}
		return nil
	})
}

// metric waits until the hub has a metric, or has it no more.
func (o *onCall) metric(pattern string, shown bool) {
	o.t.Helper()
	if pattern == "" {
		return
	}
	line := regexp.MustCompile("(?m)^" + pattern + "$")
	eventually(o.t, pattern, func() error {
		text, err := o.look("/metrics")
		if err == nil && line.MatchString(text) != shown {
			i := strings.Index(text, "spokewire_hub_")
			err = fmt.Errorf("want %t: %.3000s", shown, text[max(i, 0):])
		}
		return err
	})
}

// run prepares the incident, looks at it, and repairs it.
func (o *onCall) run(t *testing.T, i incident) {
	before := o.t
	o.t = t
	defer func() { o.t = before }()
	if len(i.looks) > 3 {
		t.Errorf("%d looks, want 3 at most", len(i.looks))
	}
	repaired := false
	defer func() {
		if !repaired {
			i.repair()
		}
	}()
	since := 0
	if i.logs.run != nil {
		since = len(i.logs.run.Log())
	}
	i.fail()
	if i.failed != "" {
		i.logs.awaitLog(since, i.failed)
	}
	for _, what := range slices.Sorted(maps.Keys(i.looks)) {
		o.shows(what, true, i.looks[what]...)
		text, _ := o.look(what)
		if !strings.HasPrefix(what, "/") {
			t.Logf("%s:\n%s", what, text)
		}
	}
	o.metric(i.metric, true)
	repaired = true
	i.repair()
	for what, texts := range i.looks {
		o.shows(what, false, texts...)
	}
	o.metric(i.metric, false)
	if i.recovered != "" {
		i.logs.awaitLog(since, i.recovered)
	}
	o.healthy()
	log := i.logs.run.Log()[since:]
	for _, text := range []string{i.failed, i.recovered} {
		if n := strings.Count(log, text); text != "" && n != 1 {
			t.Errorf("%d records %s, want 1:\n%s", n, text, log)
		}
	}
	t.Logf("log:\n%s", log)
}

// healthy waits until nothing is wrong.
func (o *onCall) healthy() {
	o.t.Helper()
	wrong := regexp.MustCompile(`Degraded|Unknown|Missing|Progressing|OutOfSync|Suspended|Silent|NeverJoined| is down`)
	for _, what := range []string{"hub status", "hub get clusters"} {
		eventually(o.t, what, func() error {
			out, err := o.look(what)
			if err == nil && wrong.MatchString(out) {
				err = errors.New(out)
			}
			return err
		})
	}
}
