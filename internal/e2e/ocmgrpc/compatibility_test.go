// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

var wordEnd = regexp.MustCompile(`([a-z])([A-Z])`)

// codeName returns the name of a code in the specification of gRPC.
func codeName(c codes.Code) string {
	return strings.ToUpper(wordEnd.ReplaceAllString(c.String(), "${1}_${2}"))
}

// TestDocumentedRejections checks that COMPATIBILITY.md has the status codes that differ, and no
// others.
func TestDocumentedRejections(t *testing.T) {
	text, err := os.ReadFile("../../../cloudevents/grpc/COMPATIBILITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| request | OCM v1.2.1 | this SDK |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	different := 0
	for _, r := range rejections {
		if r.theirs == r.ours {
			continue
		}
		different++
		row := fmt.Sprintf("(?m)^\\| %s \\| `%s`.* \\| `%s`", r.name, codeName(r.theirs), codeName(r.ours))
		if !regexp.MustCompile(row).MatchString(table) {
			t.Errorf("no row matches %s", row)
		}
	}
	if rows := strings.Count(table+"\n", "\n"); rows != different {
		t.Errorf("the table has %d rows, and %d codes differ", rows, different)
	}
}
