// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/examples/hub/internal/httpapi"
)

// TestPageListsRequests compares the requests in API.md with the patterns of the API.
func TestPageListsRequests(t *testing.T) {
	page, err := os.ReadFile("../../API.md")
	if err != nil {
		t.Fatal(err)
	}
	var served, listed []string
	variable := strings.NewReplacer("{kind}", "KIND", "{name}", "NAME", "{id}", "ID", " /api/v1/", " /")
	for _, route := range httpapi.Routes() {
		served = append(served, variable.Replace(route.Pattern))
	}
	for _, request := range regexp.MustCompile("`([A-Z]+ /[^`?]*)[^`]*`").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, request[1])
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(served)), slices.Sorted(slices.Values(listed))); diff != "" {
		t.Errorf("requests (-served +listed):\n%s", diff)
	}
}
