// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPageListsRequests compares the requests in API.md with the patterns of the API.
func TestPageListsRequests(t *testing.T) {
	page, err := os.ReadFile("../../API.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var served, listed []string
	variable := strings.NewReplacer("{kind}", "KIND", "{name}", "NAME", "{id}", "ID")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, pattern := range regexp.MustCompile(`"([A-Z]+) /api/v1(/[^"]*)"`).FindAllStringSubmatch(string(text), -1) {
			if !strings.HasSuffix(file, "_test.go") {
				served = append(served, variable.Replace(pattern[1]+" "+pattern[2]))
			}
		}
	}
	for _, request := range regexp.MustCompile("`([A-Z]+ /[^`?]*)[^`]*`").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, request[1])
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(served)), slices.Sorted(slices.Values(listed))); diff != "" {
		t.Errorf("requests (-served +listed):\n%s", diff)
	}
}
