// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spokewire/sdk-go/rsync/connector"
)

// signs maps a kind of change to the sign at the start of its line in the text of a Diff. Unchanged
// objects have no line, unless they have a message.
var signs = map[connector.ChangeKind]string{
	connector.ChangeKindNone: "=", connector.ChangeKindCreate: "+", connector.ChangeKindUpdate: "~",
	connector.ChangeKindReplace: "-/+", connector.ChangeKindDelete: "-", connector.ChangeKindRefused: "!",
	connector.ChangeKindUnknown: "?",
}

// String returns the text of WriteTo.
func (d *Diff) String() string {
	var b strings.Builder
	_, _ = d.WriteTo(&b) // a strings.Builder never fails
	return b.String()
}

// WriteTo writes the diff as text: a summary, then each cluster with its apps. Each changed object
// and each changed field has a line. The order is deterministic.
//
//	Update of v2 from v1: 1 to create, 1 to change, 0 to replace, 1 to delete, 4 unchanged
//	edge+c1
//	  web of v2
//	    + ConfigMap shop/new
//	    ~ apps/Deployment shop/web
//	        .spec.replicas: 1 -> 2
//	  web of v1
//	    - ConfigMap shop/old
//	edge+c2
//	  web of v2
//	    ? Unreachable: the cluster does not answer
//
// The signs -/+, !, ? and = mark replaced, refused, unknown and unchanged objects. An unchanged
// object has a line only if it has a message.
func (d *Diff) WriteTo(w io.Writer) (int64, error) {
	t := &textWriter{w: w}
	from := ""
	if d.From != "" {
		from = " from " + d.From
	}
	t.line("%s of %s%s: %s", d.Event, d.AppContextID, from, d.summary())
	for i := range d.Clusters {
		c := &d.Clusters[i]
		if i == 0 || d.Clusters[i-1].Cluster != c.Cluster {
			t.line("%s", c.Cluster)
		}
		t.line("  %s of %s", c.App, c.AppContextID)
		if c.Reason != "" {
			t.line("    ? %s: %s", c.Reason, c.Message)
		}
		for j := range c.Changes {
			t.change(&c.Changes[j])
		}
	}
	return t.n, t.err
}

func (d *Diff) summary() string {
	s := fmt.Sprintf("%d to create, %d to change, %d to replace, %d to delete, %d unchanged",
		d.Count(connector.ChangeKindCreate), d.Count(connector.ChangeKindUpdate), d.Count(connector.ChangeKindReplace),
		d.Count(connector.ChangeKindDelete), d.Count(connector.ChangeKindNone))
	if n := d.Count(connector.ChangeKindRefused); n > 0 {
		s += fmt.Sprintf(", %d refused", n)
	}
	if n := d.Count(connector.ChangeKindUnknown); n > 0 {
		s += fmt.Sprintf(", %d unknown", n)
	}
	silent := 0
	for i := range d.Clusters {
		if d.Clusters[i].Reason != "" {
			silent++
		}
	}
	if silent > 0 {
		s += fmt.Sprintf("; unknown for %d apps on clusters", silent)
	}
	return s
}

// textWriter writes lines, until the first error.
type textWriter struct {
	w   io.Writer
	n   int64
	err error
}

// line writes a line. It replaces unprintable characters, which a terminal could interpret.
func (t *textWriter) line(format string, args ...any) {
	if t.err != nil {
		return
	}
	text := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, fmt.Sprintf(format, args...))
	n, err := io.WriteString(t.w, text+"\n")
	t.n, t.err = t.n+int64(n), err
}

func (t *textWriter) change(c *connector.Change) {
	if c.Kind == connector.ChangeKindNone && c.Message == "" {
		return
	}
	message := ""
	if c.Message != "" {
		message = ": " + c.Message
	}
	t.line("    %s %s%s", signs[c.Kind], c.Object, message)
	for _, f := range c.Fields {
		switch {
		case f.Before == "":
			t.line("        %s: %s added", f.Path, f.After)
		case f.After == "":
			t.line("        %s: %s removed", f.Path, f.Before)
		default:
			t.line("        %s: %s -> %s", f.Path, f.Before, f.After)
		}
	}
	if c.FieldsOmitted > 0 {
		t.line("        and %d more fields", c.FieldsOmitted)
	}
}
