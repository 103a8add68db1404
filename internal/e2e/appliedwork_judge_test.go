// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// bareContext is the context of requests without a waiting caller.
var bareContext = context.Background()

// auditEvent holds the needed fields of a line of the audit log.
type auditEvent struct {
	Verb           string
	UserAgent      string
	RequestURI     string
	ObjectRef      struct{ Resource, APIGroup, Namespace, Name, Subresource string }
	ResponseStatus struct{ Code int }
	StageTimestamp metav1.MicroTime
	RequestObject  json.RawMessage
	ResponseObject struct {
		Metadata struct {
			ResourceVersion string
			UID             types.UID
			OwnerReferences []metav1.OwnerReference
			Annotations     map[string]string
		}
	}
}

func (e auditEvent) object() string {
	return fmt.Sprintf("%s/%s/%s/%s", e.ObjectRef.APIGroup, e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ObjectRef.Name)
}

// preconditions returns the preconditions of a deletion.
func (e auditEvent) preconditions() (uid, version string) {
	var options metav1.DeleteOptions
	if json.Unmarshal(e.RequestObject, &options) != nil || options.Preconditions == nil ||
		options.Preconditions.UID == nil ||
		options.Preconditions.ResourceVersion == nil {
		return "", ""
	}
	return string(*options.Preconditions.UID), *options.Preconditions.ResourceVersion
}

// readAudit reads the log of the API server.
func readAudit(t *testing.T, file string) []auditEvent {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var events []auditEvent
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e auditEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // the last line may be half written
		}
		events = append(events, e)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return events
}

// writes counts the write requests of an agent in the log.
func (g *ground) writes(agent string) int {
	n := 0
	for _, e := range readAudit(g.t, g.audit) {
		if e.UserAgent == agent {
			n++
		}
	}
	return n
}

// state is an object at one resourceVersion.
type state struct {
	owners      []metav1.OwnerReference
	annotations map[string]string
}

// history returns the log entries of an object.
func history(events []auditEvent, object string) string {
	var b strings.Builder
	for _, e := range events {
		if e.object() == object {
			uid, version := e.preconditions()
			fmt.Fprintf(&b, "%s %s by %s: %d, version %s of %s, preconditions %s %s\n", e.Verb, e.RequestURI, e.UserAgent,
				e.ResponseStatus.Code,
				e.ResponseObject.Metadata.ResourceVersion, e.ResponseObject.Metadata.UID, version, uid)
		}
	}
	return b.String()
}

// foreignDeletions judges every completed deletion by agents with names that begin with prefix. The
// object at the resourceVersion of the precondition must have a reference to an AppliedWork of the
// agent. It must not have a reference to another live AppliedWork, or the mark of an AppliedWork
// with a policy that keeps it. The log also has that state, as the response to the write that made
// it.
func foreignDeletions(t *testing.T, events []auditEvent, prefix string, l *ledger) (judged int) {
	t.Helper()
	return foreignDeletionsOf(t, events, prefix, l, false)
}

// foreignDeletionsOf is like foreignDeletions. It does not judge creates if policies may leave
// objects without an owner.
func foreignDeletionsOf(
	t *testing.T, events []auditEvent, prefix string, l *ledger, policies bool,
) (judged int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	states := map[string]state{}
	for _, e := range events {
		// A list has a version, but no UID.
		if m := e.ResponseObject.Metadata; m.UID != "" && e.ResponseStatus.Code < 300 {
			states[m.ResourceVersion+" "+string(m.UID)] = state{m.OwnerReferences, m.Annotations}
		}
	}
	for _, e := range events {
		if !strings.HasPrefix(e.UserAgent, agentPrefix+prefix) {
			continue
		}
		if e.Verb == "deletecollection" {
			t.Errorf("an agent deleted a collection: %s", e.RequestURI)
		}
		if !policies && e.Verb == "create" && e.ResponseStatus.Code < 300 && e.ObjectRef.Resource != "appliedworks" &&
			!slices.ContainsFunc(e.ResponseObject.Metadata.OwnerReferences,
				func(o metav1.OwnerReference) bool { return l.mine(e.UserAgent, o.UID) }) {
			t.Errorf("%s created %s without a reference to its AppliedWork", e.UserAgent, e.object())
		}
		if e.Verb != "delete" || e.ResponseStatus.Code >= 300 || e.ObjectRef.Resource == "appliedworks" {
			continue
		}
		judged++
		uid, version := e.preconditions()
		if uid == "" {
			t.Errorf("%s deleted %s without preconditions", e.UserAgent, e.object())
			continue
		}
		before, known := states[version+" "+uid]
		if !known {
			t.Errorf("%s deleted %s of version %s, which the log does not have:\n%s", e.UserAgent, e.object(), version,
				history(events, e.object()))
			continue
		}
		ours := false
		for _, o := range before.owners {
			if l.mine(e.UserAgent, o.UID) {
				ours = true
			} else if l.alive(o.UID, e.StageTimestamp.Time) {
				t.Errorf("%s deleted %s, which %s %s owned too", e.UserAgent, e.object(), o.Kind, o.Name)
			}
		}
		for name := range before.annotations {
			uid, kept := strings.CutPrefix(name, v1alpha1.AnnotationKeptPrefix)
			if of := types.UID(uid); kept && !l.mine(e.UserAgent, of) && l.alive(of, e.StageTimestamp.Time) {
				t.Errorf("%s deleted %s, which the policy of %s keeps", e.UserAgent, e.object(), l.works[of])
			}
		}
		if !ours {
			t.Errorf("%s deleted %s, which it did not own: %v", e.UserAgent, e.object(), before.owners)
		}
	}
	return judged
}
