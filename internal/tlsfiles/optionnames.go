// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// OptionNames are the names of options that the users of a program know, such as flags, by field.
type OptionNames map[string]string

// Error returns err with the users' names in its text, and nil for nil. It wraps err.
func (n OptionNames) Error(err error) error {
	if err == nil || len(n) == 0 || errors.As(err, new(*renamed)) {
		return err
	}
	fields := regexp.MustCompile(`\b(` + strings.Join(slices.Sorted(maps.Keys(n)), "|") + `)\b`)
	text := fields.ReplaceAllStringFunc(err.Error(), func(field string) string { return n[field] })
	return &renamed{err: err, text: text}
}

// Invalid returns the error of a constructor. Without names, it starts with the kind of the options.
func (n OptionNames) Invalid(kind string, err error) error {
	if len(n) > 0 {
		return n.Error(err)
	}
	return &renamed{err: err, text: kind + ": " + err.Error()}
}

type renamed struct {
	err  error
	text string
}

// Error returns the text with the users' names.
func (r *renamed) Error() string { return r.text }

// Unwrap returns the error with the names of fields.
func (r *renamed) Unwrap() error { return r.err }
