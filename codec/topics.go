// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of the messages on a topic.
type kind int

const (
	kindSpec kind = iota
	kindStatus
	kindSpecResync
	kindStatusResync
	kindPresence
)

// address has the parts of a topic.
type address struct {
	kind kind
	// source and cluster are empty if the topic does not have them.
	source, cluster string
	// broadcast marks the resync topics of the enhancement, which all peers read. The other resync
	// topics have one source and one cluster.
	broadcast bool
	// ofSource marks the topic for the presence of a source, not of an agent.
	ofSource bool
}

// MaxNameLength is the longest source ID, cluster name or share group in bytes. Topics have at most
// two names and fixed words, so they stay far below the limit of MQTT, 65,535 bytes.
const MaxNameLength = 1024

// ValidateName checks that a name can be one level of a topic: not empty, at most [MaxNameLength]
// bytes, valid UTF-8, without the characters `/`, `+` and `#` and without control characters. kind
// is the purpose of the name, such as "source ID", and begins the text of the error. The error is
// an [*Error] with [CodeTopic].
func ValidateName(kind, name string) error {
	if err := checkName(kind, name); err != nil {
		return err
	}
	return nil
}

func checkName(kind, name string) *Error {
	reason := ""
	switch {
	case name == "":
		reason = "must not be empty"
	case len(name) > MaxNameLength:
		reason = fmt.Sprintf("must not be longer than %d bytes", MaxNameLength)
	case !utf8.ValidString(name):
		reason = "is not valid UTF-8"
	}
	if reason != "" {
		return &Error{Code: CodeTopic, Field: kind, Reason: reason}
	}
	for _, r := range name {
		switch {
		case r == '/' || r == '+' || r == '#':
			reason = fmt.Sprintf("must not contain %q, which has a meaning in topics", r)
		case unicode.IsControl(r):
			reason = fmt.Sprintf("must not contain the control character %U", r)
		case isNoncharacter(r):
			reason = fmt.Sprintf("must not contain the noncharacter %U", r)
		default:
			continue
		}
		return &Error{Code: CodeTopic, Field: kind, Reason: reason}
	}
	return nil
}

// SharedFilters converts filters to shared subscriptions of a group: one client of the group
// receives each matching message. With the group "" it returns the filters unchanged. The group
// must pass [ValidateName].
func SharedFilters(group string, filters []string) []string {
	if group == "" {
		return filters
	}
	shared := make([]string, len(filters))
	for i, filter := range filters {
		shared[i] = "$share/" + group + "/" + filter
	}
	return shared
}
