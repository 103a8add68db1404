// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import "strings"

// The CRD's patterns as functions. They are matched on every status, and a regular expression takes
// longer than the rest of the check. Tests compare them with the CRD's patterns.

func isLower(c byte) bool    { return c >= 'a' && c <= 'z' }
func isUpper(c byte) bool    { return c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool    { return c >= '0' && c <= '9' }
func isAlphaNum(c byte) bool { return isLower(c) || isUpper(c) || isDigit(c) }

// isReason reports whether s matches ^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$.
func isReason(s string) bool {
	if s == "" || !isLower(s[0]) && !isUpper(s[0]) {
		return false
	}
	for i := 1; i < len(s); i++ {
		last := i == len(s)-1
		if c := s[i]; !isAlphaNum(c) && c != '_' && (last || c != ',' && c != ':') {
			return false
		}
	}
	return true
}

// isConditionType reports whether s is an optional subdomain with a slash, then
// (([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$.
func isConditionType(s string) bool {
	if prefix, name, ok := strings.Cut(s, "/"); ok {
		if !isSubdomain(prefix) {
			return false
		}
		s = name
	}
	if s == "" || !isAlphaNum(s[0]) || !isAlphaNum(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlphaNum(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// isSubdomain reports whether s matches
// ^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$.
func isSubdomain(s string) bool {
	for {
		label, rest, more := strings.Cut(s, ".")
		if !isLabel(label) {
			return false
		}
		if !more {
			return true
		}
		s = rest
	}
}

// NameFits reports whether s is a valid name of a work: a DNS subdomain of at most 253 bytes.
func NameFits(s string) bool { return len(s) <= 253 && isSubdomain(s) }

func isLabel[T string | []byte](s T) bool {
	if len(s) == 0 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isLower(c) && !isDigit(c) && c != '-' {
			return false
		}
	}
	return true
}
