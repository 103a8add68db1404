// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"net/url"
	"strings"
)

// The CloudEvents source is a URI reference, but IDs can be any text. An ID that is a URI reference
// is sent unchanged, any other ID percent-escaped, so that a strict reader can parse it.

// sourceURI returns the URI reference of a source or agent ID. sourceID is its inverse.
func sourceURI(id string) url.URL {
	if isPlain(id) {
		return url.URL{Path: id}
	}
	if !strings.Contains(id, "%") {
		if u, err := url.Parse(id); err == nil && u.String() == id {
			return *u
		}
	}
	// PathEscape keeps colons, which a relative reference must not have in its first segment.
	// Opaque is written unchanged.
	return url.URL{Opaque: strings.ReplaceAll(url.PathEscape(id), ":", "%3A")}
}

// sourceID returns the ID of a URI reference.
func sourceID(u url.URL) string {
	if u.Path != "" && isPlain(u.Path) && u == (url.URL{Path: u.Path}) {
		return u.Path
	}
	s := u.String()
	if !strings.Contains(s, "%") {
		return s
	}
	id, err := url.PathUnescape(s)
	if err != nil {
		return s
	}
	return id
}
