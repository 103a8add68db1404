// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// These limits bound the page for any state.
const (
	// MaxText is the maximum number of bytes shown of a name, reason or message.
	MaxText = 512
	// MaxList is the maximum number of labels, conditions or objects shown of one item.
	MaxList = 100
)

// text shortens s to MaxText bytes, between characters.
func text(s string) string {
	if len(s) <= MaxText {
		return s
	}
	end := MaxText
	for end > MaxText-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// instant returns a time in UTC, readable for users and HTML; empty for the zero time.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// mark returns the tone as one character, for users who cannot distinguish colors.
func mark(t Tone) string {
	switch t {
	case Good:
		return "✓"
	case Busy:
		return "…"
	case Bad:
		return "✕"
	default:
		return "?"
	}
}

// class returns the tone as a class of the style sheet.
func class(t Tone) string {
	switch t {
	case Good, Busy, Bad:
		return string(t)
	default:
		return "unknown"
	}
}

// labels returns the labels of a cluster as key=value, sorted.
func labels(c Cluster) []string {
	all := make([]string, 0, len(c.Labels))
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
		all = append(all, key+"="+c.Labels[key])
	}
	return all
}

// first returns the shown part of a list of any type: templates cannot call generic functions.
func first(list any) any {
	v := reflect.ValueOf(list)
	return v.Slice(0, min(v.Len(), MaxList)).Interface()
}

// more returns the number of list elements that are not shown; empty if all are shown.
func more(length int) string {
	if length <= MaxList {
		return ""
	}
	return fmt.Sprintf("and %d more", length-MaxList)
}

// conditionTone returns the tone of a condition; Unknown for types that the work API does not
// define.
func conditionTone(c metav1.Condition) Tone {
	if c.Status == metav1.ConditionUnknown {
		return Unknown
	}
	is := c.Status == metav1.ConditionTrue
	switch c.Type {
	case workv1.WorkApplied, workv1.WorkAvailable:
		if is {
			return Good
		}
		return Bad
	case workv1.WorkDegraded:
		if is {
			return Bad
		}
		return Good
	case workv1.WorkProgressing:
		if is {
			return Busy
		}
		return Good
	default:
		return Unknown
	}
}

// workTone returns the worst tone of the conditions and objects of a work: bad, busy, good, or
// unknown.
func workTone(w Work) Tone {
	tone := Unknown
	take := func(t Tone) {
		if rank(t) > rank(tone) {
			tone = t
		}
	}
	for _, c := range w.Conditions {
		take(conditionTone(c))
	}
	for _, o := range w.Objects {
		take(o.Health.Tone)
	}
	return tone
}

func rank(t Tone) int { return slices.Index([]Tone{Good, Busy, Bad}, t) }

// objectsLine summarizes the objects of a work in a line.
func objectsLine(w Work) string {
	tones := make([]Tone, len(w.Objects))
	for i, o := range w.Objects {
		tones[i] = o.Health.Tone
	}
	return count(tones, "object", "objects", "healthy", "unhealthy")
}

// count returns the number of tones, and the numbers that are bad, in progress, good and unknown.
func count(tones []Tone, one, many, good, bad string) string {
	if len(tones) == 0 {
		return "no " + many
	}
	numbers := map[string]int{}
	for _, t := range tones {
		numbers[class(t)]++
	}
	noun := many
	if len(tones) == 1 {
		noun = one
	}
	parts := []string{fmt.Sprintf("%d %s", len(tones), noun)}
	for _, part := range []struct{ class, word string }{
		{"bad", bad}, {"busy", "in progress"}, {"good", good}, {"unknown", "unknown"},
	} {
		if n := numbers[part.class]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, part.word))
		}
	}
	return strings.Join(parts, " · ")
}
