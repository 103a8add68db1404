// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// Compare compares the transcript of a script with the API server's transcript. Every line must be
// equal or listed as a difference, and every listed difference must exist. Compare returns the
// lines that are wrong.
func Compare(script string, got []string, differences map[string]Difference) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	lines := map[string]string{}
	for _, line := range got {
		label, text, _ := strings.Cut(line, ": ")
		lines[label] = text
	}
	for _, line := range Golden()[script] {
		label, oracle, _ := strings.Cut(line, ": ")
		ours, ok := lines[label]
		delete(lines, label)
		d, listed := differences[script+"/"+label]
		switch {
		case !ok:
			add("%s: not reached", label)
		case listed && oracle == d.Line:
			add("%s: listed as a difference, but the API server does the same", label)
		case listed && ours != d.Line:
			add("%s (%s)\n ours      %s\n listed    %s\n apiserver %s", label, d.Reason, ours, d.Line, oracle)
		case !listed && ours != oracle:
			add("%s\n ours      %s\n apiserver %s", label, ours, oracle)
		}
	}
	for label, text := range lines {
		add("%s: only ours: %s", label, text)
	}
	return wrong
}

// Unknown returns the labels of listed differences that no script has.
func Unknown(differences map[string]Difference) (labels []string) {
	known := map[string]bool{}
	for script, lines := range Golden() {
		for _, line := range lines {
			label, _, _ := strings.Cut(line, ": ")
			known[script+"/"+label] = true
		}
	}
	for label := range differences {
		if !known[label] {
			labels = append(labels, label)
		}
	}
	slices.Sort(labels)
	return labels
}
