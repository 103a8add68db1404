// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/examples/internal/login"
	"github.com/spokewire/sdk-go/rsync"
)

// action is a form for a [status.Control].
type action struct {
	status.Control
	Label string
	// Effect is what a person must know before. The form is closed until then.
	Effect string
}

// Actions returns what an editor can do with the application now.
func (v *view) Actions() (out []action) {
	add := func(verb status.Verb, label, effect string) {
		out = append(out, action{status.Control{Verb: verb}, label, effect})
	}
	if !v.MayEdit {
		return nil
	}
	if r := v.Application.Rollout; r != nil {
		switch event := rsync.ElementStatus(r.Status); {
		case event.Final() && event != rsync.Done:
			add(status.Resume, "Start the rollout again", "")
		case !event.Final():
			if r.Needs != nil {
				label := fmt.Sprintf("Approve the group %q", r.Needs.Group)
				if r.Needs.Gate == rsync.GateAfterGroup {
					label = fmt.Sprintf("Approve the step after the group %q", r.Needs.Group)
				}
				out = append(out, action{status.Control{Verb: status.Approve, Approval: *r.Needs}, label, ""})
			}
			if r.Paused {
				add(status.Resume, "Resume the rollout", "")
			} else {
				add(status.Pause, "Pause the rollout", "")
			}
			add(status.Abort, "Abort the rollout", "No further cluster starts. Clusters in progress are not awaited. "+
				"If the rollout has rollbackOnFailure, the application is rolled back.")
		}
	}
	if v.Application.Held != 0 {
		add(status.Release, "End the hold", "The document of the application is rolled out again.")
	}
	return out
}

// done are the messages after a change.
var done = map[string]string{
	string(status.Approve): "Approved. The rollout continues.", string(status.Pause): "Paused. No further cluster starts.",
	string(status.Resume): "Resumed. The rollout continues.", string(status.Abort): "Aborted. No further cluster starts.",
	string(status.Rollback): "The rollback has started.", string(status.Release): "The hold has ended.",
	"same": "The application is held at this revision. Its target differs at most in its clusters, which follow the " +
		"placements, so nothing else changes.",
}

// Done returns the message after a change, or "".
func (v *view) Done() string { return done[v.Query.Get("done")] }

// Current returns the wanted revision on the page of an application for editors, or 0.
func (v *view) Current() int {
	if !v.MayEdit || v.Application == nil {
		return 0
	}
	current, _ := strconv.Atoi(v.Application.Revision)
	return current
}

// Rollback returns the rollback for the difference on the page, or nil.
func (v *view) Rollback() *action {
	if v.From != v.Current() || v.From == v.To {
		return nil
	}
	c := status.Control{Verb: status.Rollback, Revision: v.To}
	return &action{c, fmt.Sprintf("Roll back to revision %d", v.To),
		"The application is rolled out with these differences, and held until its document changes."}
}

var errStale = errors.New("the application has changed since the page was shown: check the page, and try again")

// control makes the change of a form. It redirects to the page of the application, or shows it with
// the error.
func (p *Page) control(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	switch {
	case !p.opts.MayEdit(r):
		http.Error(w, "you may read this page, but not change anything", http.StatusForbidden)
		return
	case r.ParseForm() != nil:
		http.Error(w, fmt.Sprintf("the form must be URL-encoded, with at most %d bytes", maxForm), http.StatusBadRequest)
		return
	}
	name, c := r.PathValue("name"), status.Control{Verb: status.Verb(r.URL.Query().Get("do"))}
	c.Approval = rsync.Approval{Group: r.PostForm.Get("group"), Gate: rsync.Gate(r.PostForm.Get("gate"))}
	c.Revision, _ = strconv.Atoi(r.PostForm.Get("revision"))
	login.Describe(r.Context(), c.String())
	var out status.RolledBack
	a, ok := p.hub.Application(r.Context(), name)
	err := errStale
	if ok && a.Revision == r.PostForm.Get("seen") {
		out, err = p.hub.Control(r.Context(), name, c)
		p.Changed()
	}
	if err != nil {
		login.Explain(r.Context(), err.Error())
		p.serve(func(v *view) error {
			v.Failed = err.Error()
			return v.application()
		})(w, r)
		return
	}
	message := string(c.Verb)
	if out.Note != "" {
		message = "same"
	}
	w.Header().Set("Location", "?done="+message) // relative: the page may be below another path
	w.WriteHeader(http.StatusSeeOther)
}
