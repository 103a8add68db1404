// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package topicfilter parses the topic filters of MQTT v5, and finds those that match a topic.
package topicfilter

import (
	"fmt"
	"strings"
)

// Filter is a parsed topic filter.
type Filter struct {
	Group  string // of a shared subscription, otherwise empty
	Levels []string
}

// Parse parses a filter by MQTT v5, sections 4.7 and 4.8.2.
func Parse(s string) (f Filter, err error) {
	path := s
	if rest, shared := strings.CutPrefix(s, "$share/"); shared {
		var ok bool
		f.Group, path, ok = strings.Cut(rest, "/")
		if !ok || f.Group == "" || strings.ContainsAny(f.Group, "+#") {
			return f, fmt.Errorf("topic filter %q: must be $share/<group>/<filter>, with a group without + and #", s)
		}
	}
	if path == "" {
		return f, fmt.Errorf("topic filter %q is empty", s)
	}
	f.Levels = strings.Split(path, "/")
	for i, level := range f.Levels {
		switch {
		case level == "#" && i != len(f.Levels)-1:
			return f, fmt.Errorf("topic filter %q: # must be the last level", s)
		case len(level) > 1 && strings.ContainsAny(level, "+#"):
			return f, fmt.Errorf("topic filter %q: + and # must be a level of their own", s)
		}
	}
	return f, nil
}
