// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// readSettings reads the query of a URL. Secrets are allowed in files only: other users can read
// command lines.
func readSettings(query string, known map[string]*string) error {
	settings, err := url.ParseQuery(query)
	if err != nil {
		// the query may have a password
		return errors.New("the text after the question mark must be name=value&name=value")
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		switch field := known[name]; {
		case field == nil:
			return fmt.Errorf("unknown setting %q: must be one of %s", name,
				strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case len(settings[name]) > 1:
			return fmt.Errorf("%s is given %d times", name, len(settings[name]))
		default:
			*field = settings[name][0]
		}
	}
	return nil
}
