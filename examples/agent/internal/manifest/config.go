// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"path"
	"slices"
	"strings"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
)

// Config is the joined configuration of a work for one manifest.
type Config struct {
	UpdateStrategy *workv1.UpdateStrategy
	FeedbackRules  []workv1.FeedbackRule
	ConditionRules []workv1.ConditionRule
	// FeedbackErr is why there are no feedback rules, and ConditionErr why there are only those for
	// [essential] conditions: [guard.ErrExceeded].
	FeedbackErr, ConditionErr error
	// Poll is whether the object is polled, in addition to being watched.
	Poll bool
	// BadScrapeType is an unknown scrape type; the object is then polled.
	BadScrapeType workv1.FeedbackScrapeType
}

// essential are the conditions that decide about the state of a work. Their rules stay when the
// others exceed the limit: each has only one rule, and a work must not be Complete or Available
// because a rule was left out.
var essential = []string{
	workv1.ManifestComplete, workv1.ManifestAvailable, workv1.ManifestApplied, workv1.ManifestProgressing,
	workv1.ManifestDegraded,
}

// Configs are the configurations of a work.
type Configs struct {
	all []configuration
	// exact has the indexes in all of identifiers without wildcards, and wild those of the others.
	exact map[workv1.ResourceIdentifier][]int
	wild  []int
	// patterns is the total length of the identifiers with wildcards.
	patterns int
}

type configuration struct {
	*workv1.ManifestConfigOption
	// conditions has the first rule for each condition, and essential those for [essential]
	// conditions.
	conditions, essential []workv1.ConditionRule
	// feedbackCost and conditionCost count the rules that can be left out. A rule with several
	// paths or expressions counts as many.
	feedbackCost, conditionCost int
}

// NewConfigs prepares the configurations of a work.
func NewConfigs(options []workv1.ManifestConfigOption) *Configs {
	out := &Configs{all: make([]configuration, len(options)), exact: map[workv1.ResourceIdentifier][]int{}}
	for i := range options {
		c := configuration{ManifestConfigOption: &options[i], conditions: slices.Clone(options[i].ConditionRules)}
		for k := range c.conditions {
			if rule := &c.conditions[k]; rule.Condition == "" && rule.Type == workv1.WellKnownConditionsType {
				rule.Condition = workv1.ManifestComplete // the default
			}
		}
		c.conditions = firsts(c.conditions)
		for _, rule := range c.conditions {
			if slices.Contains(essential, rule.Condition) {
				c.essential = append(c.essential, rule)
			} else {
				c.conditionCost += max(1, len(rule.CelExpressions))
			}
		}
		for _, rule := range c.FeedbackRules {
			c.feedbackCost += max(1, len(rule.JsonPaths))
		}
		out.all[i] = c
		if id := c.ResourceIdentifier; strings.ContainsAny(id.Namespace+id.Name, special) {
			out.wild = append(out.wild, i)
			out.patterns += len(id.Namespace) + len(id.Name)
		} else {
			out.exact[id] = append(out.exact[id], i)
		}
	}
	return out
}

// special are the special characters of patterns for [path.Match].
const special = `*?[\`

// maxPatterns limits the total length of the identifiers with wildcards, times the manifests that
// they are compared with.
const maxPatterns = 1 << 22

// tooMany returns an error if comparing the patterns with so many manifests takes too long.
func (c *Configs) tooMany(manifests int) error {
	if c.patterns*manifests <= maxPatterns {
		return nil
	}
	return fmt.Errorf("%d configurations of the work have wildcards, which is too many for %d manifests: split the work",
		len(c.wild), manifests)
}

// For joins the configurations that match an object. Name and namespace of an identifier may have
// wildcards: "*" matches any characters. The first update strategy, the first condition rule for
// each condition, and all feedback rules are used. The rules of a single configuration are shared.
// Rules that exceed the budget are left out.
func (c *Configs) For(id workv1.ResourceIdentifier, b *guard.Budget) Config {
	var out Config
	var fitting []*configuration
	feedbackCost, conditionCost := 0, 0
	places := slices.Clone(c.exact[id])
	for _, i := range c.wild {
		if fits(c.all[i].ResourceIdentifier, id) {
			places = append(places, i)
		}
	}
	slices.Sort(places)
	for _, i := range places {
		o := &c.all[i]
		if out.UpdateStrategy == nil {
			out.UpdateStrategy = o.UpdateStrategy
		}
		out.Poll = out.Poll || len(o.FeedbackRules) > 0 && o.FeedbackScrapeType != workv1.FeedbackWatchType
		switch o.FeedbackScrapeType {
		case "", workv1.FeedbackWatchType, workv1.FeedbackPollType:
		default:
			out.BadScrapeType = o.FeedbackScrapeType
		}
		fitting = append(fitting, o)
		feedbackCost, conditionCost = feedbackCost+o.feedbackCost, conditionCost+o.conditionCost
	}
	conditions := func(o *configuration) []workv1.ConditionRule { return o.conditions }
	if out.ConditionErr = b.Rules(conditionCost); out.ConditionErr != nil {
		conditions = func(o *configuration) []workv1.ConditionRule { return o.essential }
	}
	var shared bool
	if out.ConditionRules, shared = joined(fitting, conditions); !shared {
		out.ConditionRules = firsts(out.ConditionRules)
	}
	if out.FeedbackErr = b.Rules(feedbackCost); out.FeedbackErr == nil {
		out.FeedbackRules, _ = joined(fitting, func(o *configuration) []workv1.FeedbackRule { return o.FeedbackRules })
	}
	return out
}

// joined returns the rules of all configurations. They are shared if only one configuration has
// any.
func joined[T any](from []*configuration, of func(*configuration) []T) (rules []T, shared bool) {
	var lists [][]T
	for _, o := range from {
		if list := of(o); len(list) > 0 {
			lists = append(lists, list)
		}
	}
	if len(lists) == 1 {
		return lists[0], true
	}
	return slices.Concat(lists...), false
}

// firsts keeps the first rule for each condition.
func firsts(rules []workv1.ConditionRule) []workv1.ConditionRule {
	seen := map[string]bool{}
	return slices.DeleteFunc(rules, func(r workv1.ConditionRule) bool {
		before := seen[r.Condition]
		seen[r.Condition] = true
		return before
	})
}

func fits(pattern, id workv1.ResourceIdentifier) bool {
	return pattern.Group == id.Group && pattern.Resource == id.Resource &&
		matches(pattern.Namespace, id.Namespace) && matches(pattern.Name, id.Name)
}

// matches reports whether a name matches a pattern. Kubernetes names have no special characters of
// path.Match.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok || pattern == name
}
