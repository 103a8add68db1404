// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"path"

	workv1 "open-cluster-management.io/api/work/v1"
)

// Config is what the configurations of a work say of one manifest.
type Config struct {
	UpdateStrategy *workv1.UpdateStrategy
	FeedbackRules  []workv1.FeedbackRule
	ConditionRules []workv1.ConditionRule
	// Poll is whether the object is to be looked at from time to time, beside when it changes.
	Poll bool
	// BadScrapeType is one that is unknown; the object is polled then.
	BadScrapeType workv1.FeedbackScrapeType
}

// ConfigFor joins the configurations whose identifier fits an object. Name and namespace of an identifier may have
// wildcards: "*" stands for any characters. The first update strategy counts, of condition rules for one condition the
// first, and of feedback rules all.
func ConfigFor(options []workv1.ManifestConfigOption, id workv1.ResourceIdentifier) Config {
	var c Config
	conditions := map[string]bool{}
	for i := range options {
		o := &options[i]
		if !fits(o.ResourceIdentifier, id) {
			continue
		}
		if c.UpdateStrategy == nil {
			c.UpdateStrategy = o.UpdateStrategy
		}
		c.FeedbackRules = append(c.FeedbackRules, o.FeedbackRules...)
		c.Poll = c.Poll || len(o.FeedbackRules) > 0 && o.FeedbackScrapeType != workv1.FeedbackWatchType
		switch o.FeedbackScrapeType {
		case "", workv1.FeedbackWatchType, workv1.FeedbackPollType:
		default:
			c.BadScrapeType = o.FeedbackScrapeType
		}
		for _, rule := range o.ConditionRules {
			if rule.Condition == "" && rule.Type == workv1.WellKnownConditionsType {
				rule.Condition = workv1.ManifestComplete // which is the well-known one
			}
			if !conditions[rule.Condition] {
				conditions[rule.Condition] = true
				c.ConditionRules = append(c.ConditionRules, rule)
			}
		}
	}
	return c
}

func fits(pattern, id workv1.ResourceIdentifier) bool {
	return pattern.Group == id.Group && pattern.Resource == id.Resource &&
		matches(pattern.Namespace, id.Namespace) && matches(pattern.Name, id.Name)
}

// matches: names of Kubernetes have none of the characters but "*" that path.Match reads.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok || pattern == name
}
