// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/internal/bound"
	"github.com/spokewire/sdk-go/interpreter/internal/aggregate"
)

const (
	// perCondition and perAggregate are the steps to read a condition and to make one.
	perCondition, perAggregate = 96, 320
	// notObserved is the reason of a condition of an earlier generation.
	notObserved = "NotObserved"
)

// good are condition types with True as the good value, in all projects that have them. Types with
// the suffix Ready are good, too.
var good = map[string]bool{
	"Accepted": true, "Available": true, "Established": true, "Healthy": true, "Installed": true, "Programmed": true,
	"ResolvedRefs": true, "Succeeded": true, "Synced": true,
}

// ruleOf returns the rule of a type that is not in the list of an expression. For a type that is
// not good, the meaning of True is unknown, so clusters must agree.
func ruleOf(kind string) aggregate.Rule {
	if good[kind] || strings.HasSuffix(kind, "Ready") && kind != "NotReady" {
		return aggregate.RuleOnAll
	}
	return aggregate.RuleAgree
}

// reported is a condition in a status.
type reported struct {
	aggregate.Condition
	fields ref.Val
}

// conditionsOf returns the first condition of each type in the status of an item or of the object.
func conditionsOf(steps *bound.Steps, object ref.Val) ([]reported, error) {
	list := lookup(object, []string{"status", "conditions"})
	if list == nil {
		return nil, nil
	}
	if _, ok := list.(traits.Lister); !ok {
		return nil, noConditions(object, fmt.Errorf("got %s, expected a list", typeOf(list)))
	}
	var out []reported
	seen := map[string]bool{}
	err := each(steps, list, func(element ref.Val) error {
		c, err := readCondition(element)
		if err != nil {
			return noConditions(object, err)
		}
		if !seen[c.Type] {
			out = append(out, reported{c, element})
		}
		seen[c.Type] = true
		return steps.Take("conditions", perCondition+len(c.Message)/perByte)
	})
	return out, err
}

func noConditions(object ref.Val, err error) error {
	if cluster := text(object, "clusterName"); cluster != "" {
		return fmt.Errorf("status.conditions of cluster %q are not conditions: %w", cluster, err)
	}
	return fmt.Errorf("status.conditions are not conditions: %w", err)
}

func readCondition(element ref.Val) (aggregate.Condition, error) {
	if _, ok := unwrap(element).(traits.Mapper); !ok {
		return aggregate.Condition{}, errors.New("an element is not an object")
	}
	var failed error
	read := func(name string) string {
		v := lookup(element, []string{name})
		s, ok := v.(types.String)
		if v != nil && !ok {
			failed = fmt.Errorf("%s: got %s, expected a string", name, typeOf(v))
		}
		return string(s)
	}
	readTime := func(name string) metav1.Time {
		s := read(name)
		if s == "" {
			return metav1.Time{}
		}
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			failed = fmt.Errorf("%s is not a time", name)
		}
		return metav1.NewTime(t)
	}
	c := aggregate.Condition{
		Type:               read("type"),
		Status:             corev1.ConditionStatus(read("status")),
		ObservedGeneration: integer(element, "observedGeneration"),
		LastProbeTime:      readTime("lastProbeTime"),
		LastUpdateTime:     readTime("lastUpdateTime"),
		LastTransitionTime: readTime("lastTransitionTime"),
		Reason:             read("reason"),
		Message:            read("message"),
	}
	return c, failed
}

// reportsOf returns the conditions that a cluster reports. A condition of an earlier generation, of
// the object or on the cluster, becomes Unknown.
func reportsOf(steps *bound.Steps, generation int64, item ref.Val) ([]reported, error) {
	conditions, err := conditionsOf(steps, item)
	if err != nil {
		return nil, err
	}
	template := integer(item, "status", "resourceTemplateGeneration")
	newest, observed := integer(item, "status", "generation"), integer(item, "status", "observedGeneration")
	earlier := generation != 0 && template != 0 && template != generation || observed != 0 && observed < newest
	for i := range conditions {
		if c := &conditions[i]; earlier || c.ObservedGeneration != 0 && c.ObservedGeneration < newest {
			c.Status, c.Reason = corev1.ConditionUnknown, notObserved
			c.Message = strings.TrimSuffix("earlier generation: "+c.Message, ": ")
		}
	}
	return conditions, nil
}

// reports are the conditions that all clusters report for an object.
type reports struct {
	clusters, silent int        // silent clusters have no status
	last             []reported // of the last cluster
	byType           map[string][]aggregate.Report
	generations      map[string]int64 // of the types with an observed generation
}

// readReports sorts the reports of a type by cluster.
func readReports(steps *bound.Steps, generation int64, items ref.Val) (reports, error) {
	all := reports{byType: map[string][]aggregate.Report{}, generations: map[string]int64{}}
	err := each(steps, items, func(item ref.Val) (err error) {
		all.clusters++
		if lookup(item, []string{"status"}) == nil {
			all.silent++
		}
		cluster := text(item, "clusterName")
		if all.last, err = reportsOf(steps, generation, item); err != nil {
			return err
		}
		for _, c := range all.last {
			if c.ObservedGeneration != 0 {
				all.generations[c.Type] = cmp.Or(generation, c.ObservedGeneration)
			}
			all.byType[c.Type] = append(all.byType[c.Type], aggregate.Report{Cluster: cluster, Condition: c.Condition})
		}
		return nil
	})
	for _, list := range all.byType {
		slices.SortStableFunc(list, func(a, b aggregate.Report) int { return cmp.Compare(a.Cluster, b.Cluster) })
	}
	return all, err
}

func aggregateConditions(steps *bound.Steps, args []ref.Val) (any, error) {
	bad := map[string]bool{}
	err := each(steps, args[2], func(kind ref.Val) error {
		name, _ := kind.(types.String)
		bad[string(name)] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	all, err := readReports(steps, integer(args[0], "metadata", "generation"), args[1])
	if err != nil {
		return nil, err
	}
	read, err := conditionsOf(steps, args[0])
	if err != nil {
		return nil, err
	}
	before := make([]aggregate.Condition, len(read))
	for i, c := range read {
		before[i] = c.Condition
	}
	// Each type compares its reports with the earlier conditions.
	if err := steps.Take("aggregateConditions", (len(all.byType)+len(before))*(perAggregate+len(before))); err != nil {
		return nil, err
	}
	out := aggregate.Conditions(before, all.byType, all.clusters, all.silent, func(kind string) (aggregate.Rule, bool) {
		if bad[kind] {
			return aggregate.RuleOnOne, true
		}
		return ruleOf(kind), true
	})
	// The schema of most kinds requires a time. A condition that was not reported has none.
	for i := range out {
		c := &out[i]
		c.ObservedGeneration = all.generations[c.Type]
		if c.LastTransitionTime.IsZero() {
			for _, r := range all.byType[c.Type] {
				c.LastTransitionTime = *aggregate.Later(&c.LastTransitionTime, &r.LastTransitionTime)
			}
		}
	}
	if all.clusters == 1 && all.silent == 0 {
		return ofOneCluster(steps, all.last, out)
	}
	return generic[[]any](out)
}

// ofOneCluster returns the conditions of the only cluster with all their fields.
func ofOneCluster(steps *bound.Steps, conditions []reported, merged []aggregate.Condition) (any, error) {
	byType := make(map[string]aggregate.Condition, len(merged))
	for _, c := range merged {
		byType[c.Type] = c
	}
	out := make([]any, len(conditions))
	for i, c := range conditions {
		m := byType[c.Type]
		m.Status, m.Reason, m.Message = c.Status, c.Reason, c.Message
		fields, err := plainFields(steps, c.fields)
		if err != nil {
			return nil, err
		}
		changed, err := generic[map[string]any](m)
		if err != nil {
			return nil, err
		}
		out[i] = fields
		mergeInto(fields, changed)
	}
	return out, nil
}
