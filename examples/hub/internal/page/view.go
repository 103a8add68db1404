// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
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

// marks are the tones as characters, for users who cannot distinguish colors.
var marks = map[Tone]string{Good: "✓", Busy: "…", Bad: "✕"}

func mark(t Tone) string { return cmp.Or(marks[t], "?") }

// class returns the tone as a class of the style sheet.
func class(t Tone) string {
	if marks[t] == "" {
		return "unknown"
	}
	return string(t)
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

// conditionTones are the tones of conditions. Other types, which the work API does not define, are
// Unknown.
var conditionTones = map[string]map[metav1.ConditionStatus]Tone{
	workv1.WorkApplied:     {metav1.ConditionTrue: Good, metav1.ConditionFalse: Bad},
	workv1.WorkAvailable:   {metav1.ConditionTrue: Good, metav1.ConditionFalse: Bad},
	workv1.WorkDegraded:    {metav1.ConditionTrue: Bad, metav1.ConditionFalse: Good},
	workv1.WorkProgressing: {metav1.ConditionTrue: Busy, metav1.ConditionFalse: Good},
}

func conditionTone(c metav1.Condition) Tone { return conditionTones[c.Type][c.Status] }

func objectTones(w Work) (tones []Tone) {
	for _, o := range w.Objects {
		tones = append(tones, o.Health.Tone)
	}
	return tones
}

// workTone returns the worst tone of the conditions and objects of a work: bad, busy, good, or
// unknown.
func workTone(w Work) Tone {
	tones := append(objectTones(w), Unknown)
	for _, c := range w.Conditions {
		tones = append(tones, conditionTone(c))
	}
	order := []Tone{Good, Busy, Bad}
	return slices.MaxFunc(tones, func(a, b Tone) int { return slices.Index(order, a) - slices.Index(order, b) })
}

// objectsLine summarizes the objects of a work in a line.
func objectsLine(w Work) string { return count(objectTones(w), "object", "healthy", "unhealthy") }

// count returns the number of tones, and the numbers that are bad, in progress, good and unknown.
func count(tones []Tone, noun, good, bad string) string {
	if len(tones) == 0 {
		return "no " + noun + "s"
	}
	numbers := map[string]int{}
	for _, t := range tones {
		numbers[class(t)]++
	}
	if len(tones) > 1 {
		noun += "s"
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
