// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Verb is the kind of a commit.
type Verb string

// The verbs.
const (
	VerbApply  Verb = "apply"
	VerbDelete Verb = "delete"
)

// Commit describes a commit for its message. It has no content of manifests.
type Commit struct {
	Verb              Verb
	AppContextID, App string
	Cluster           appcontext.ClusterID
	// Changed has the objects with changed files, in the order of the batch.
	Changed []appcontext.Object
}

// listed limits the objects that a message names.
const listed = 50

// Message returns the default message of a commit: one line with a summary, and then its objects.
func Message(c Commit) string {
	var b strings.Builder
	verb, objects := "Apply", "objects"
	if c.Verb == VerbDelete {
		verb = "Delete"
	}
	if len(c.Changed) == 1 {
		objects = "object"
	}
	fmt.Fprintf(&b, "%s %d %s of %s/%s on %s\n\n", verb, len(c.Changed), objects, c.AppContextID, c.App, c.Cluster)
	for i, o := range c.Changed {
		if i == listed {
			fmt.Fprintf(&b, "and %d more\n", len(c.Changed)-listed)
			break
		}
		fmt.Fprintf(&b, "%s\n", printable(o.String()))
	}
	return b.String()
}

// printable replaces characters that could break a line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// message makes a message valid: git ends a message at a NUL, and rejects an empty message.
func message(s string) string {
	s = strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "?"))
	if s == "" {
		s = "rsync"
	}
	return s + "\n"
}
