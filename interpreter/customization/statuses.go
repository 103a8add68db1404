// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/spokewire/sdk-go/internal/bound"
	"github.com/spokewire/sdk-go/interpreter/internal/aggregate"
	"github.com/spokewire/sdk-go/interpreter/native"
)

func condition(steps *bound.Steps, args []ref.Val) (any, error) {
	out := map[string]any{"type": args[1], "status": "", "reason": "", "message": ""}
	conditions := lookup(args[0], []string{"status", "conditions"})
	if conditions == nil {
		return out, nil
	}
	found := false
	err := each(steps, conditions, func(element ref.Val) error {
		if found || lookup(element, []string{"type"}) != args[1] {
			return nil
		}
		found = true
		fields, err := plainFields(steps, element)
		for name, v := range fields {
			if v != nil {
				out[name] = v
			}
		}
		return err
	})
	return out, err
}

func reflectStatus(steps *bound.Steps, args []ref.Val) (any, error) {
	var out map[string]any
	var err error
	if status := lookup(args[0], []string{"status"}); len(args) == 1 {
		out, err = plainFields(steps, status)
	} else {
		out, err = picked(steps, status, args[1])
	}
	if err != nil {
		return nil, err
	}
	add := func(name string, n int64) {
		if _, there := out[name]; !there && n != 0 {
			out[name] = n
		}
	}
	add("generation", integer(args[0], "metadata", "generation"))
	// An invalid annotation is ignored.
	template, _ := strconv.ParseInt(text(args[0], "metadata", "annotations", native.TemplateGenerationAnnotation), 10, 64)
	add("resourceTemplateGeneration", template)
	return out, nil
}

func observedGeneration(steps *bound.Steps, args []ref.Val) (any, error) {
	var reported []aggregate.Generations
	clusters := 0
	err := each(steps, args[1], func(item ref.Val) error {
		clusters++
		if status := lookup(item, []string{"status"}); status != nil {
			reported = append(reported, aggregate.Generations{
				Generation:                 integer(status, "generation"),
				ResourceTemplateGeneration: integer(status, "resourceTemplateGeneration"),
				ObservedGeneration:         integer(status, "observedGeneration"),
			})
		}
		return steps.Take("observedGeneration", perField)
	})
	before := integer(args[0], "status", "observedGeneration")
	return aggregate.Observed(integer(args[0], "metadata", "generation"), before, clusters, reported), err
}

// eachCondition calls f with each condition that clusters report.
func eachCondition(steps *bound.Steps, items ref.Val, f func(cluster string, c ref.Val) error) error {
	return each(steps, items, func(item ref.Val) error {
		conditions := lookup(item, []string{"status", "conditions"})
		if conditions == nil {
			return nil
		}
		cluster := text(item, "clusterName")
		return each(steps, conditions, func(c ref.Val) error {
			if _, ok := c.(traits.Mapper); !ok {
				return fmt.Errorf("status.conditions of cluster %q are not conditions", cluster)
			}
			return f(cluster, c)
		})
	})
}

// latestConditions returns the latest condition for each value of a field, sorted by time. Of
// conditions with the same time, it returns that of the last cluster.
func latestConditions(steps *bound.Steps, args []ref.Val) (any, error) {
	type latest struct {
		condition ref.Val
		time, key string
	}
	field := string(args[1].(types.String))
	found := map[string]latest{}
	err := eachCondition(steps, args[0], func(_ string, c ref.Val) error {
		next := latest{c, cmp.Or(text(c, "lastUpdateTime"), text(c, "lastTransitionTime")), text(c, field)}
		if next.time >= found[next.key].time {
			found[next.key] = next
		}
		return steps.Take("latestConditions", perField)
	})
	sorted := slices.SortedFunc(maps.Values(found), func(a, b latest) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.key, b.key))
	})
	out := make([]any, len(sorted))
	for i, l := range sorted {
		out[i] = l.condition
	}
	return out, err
}

// longestMessage is the limit of the message of a condition in the schemas of Kubernetes.
const longestMessage = 32 << 10

// joined is a condition of several clusters.
type joined struct {
	fields   map[string]any
	messages []string
	bytes    int // of the messages with their separators
	more     int // messages without room
}

func joinConditions(steps *bound.Steps, args []ref.Val) (any, error) {
	type key struct{ kind, status, reason string }
	found := map[key]*joined{}
	var order []*joined
	err := eachCondition(steps, args[0], func(cluster string, c ref.Val) error {
		k := key{text(c, "type"), text(c, "status"), text(c, "reason")}
		if err := steps.Take("joinConditions", perField); err != nil {
			return err
		}
		j := found[k]
		if j == nil {
			first, err := plainFields(steps, c)
			if err != nil {
				return err
			}
			j = &joined{fields: first}
			found[k], order = j, append(order, j)
		}
		return j.add(steps, cluster+"="+text(c, "message"))
	})
	out := make([]any, len(order))
	for i, j := range order {
		j.fields["message"] = j.message()
		out[i] = j.fields
	}
	return out, err
}

// add adds the message of a cluster, if there is room for it.
func (j *joined) add(steps *bound.Steps, message string) error {
	const separator, end = 2, 32 // end is for the number of other clusters
	bytes := j.bytes + len(message) + separator
	if bytes > longestMessage-end {
		j.more++
		return nil
	}
	j.bytes, j.messages = bytes, append(j.messages, message)
	return steps.Take("joinConditions", len(message))
}

func (j *joined) message() string {
	text := strings.Join(j.messages, ", ")
	if j.more > 0 {
		text += fmt.Sprintf(" and %d more", j.more)
	}
	return text
}
