// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2etest

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// Login adds the token of an editor to a request for a hub with a folder as its store.
func Login(r *http.Request, store string) error {
	token, err := os.ReadFile(filepath.Join(store, "admin.token"))
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return err
}
