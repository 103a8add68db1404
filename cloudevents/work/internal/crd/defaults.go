// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"cmp"
	"slices"

	workv1 "open-cluster-management.io/api/work/v1"
)

// Default sets the CRD's defaults where the JSON of a typed client has no value: the field is empty
// and has the tag omitempty. It replaces values behind pointers instead of changing them, since
// they may be shared. It allocates nothing if all values are set.
func Default(s *workv1.ManifestWorkSpec) {
	if !slices.ContainsFunc(s.ManifestConfigs, lacks) {
		return
	}
	s.ManifestConfigs = slices.Clone(s.ManifestConfigs)
	for i := range s.ManifestConfigs {
		fill(&s.ManifestConfigs[i])
	}
}

// lacks reports whether fill would change something.
func lacks(c workv1.ManifestConfigOption) bool {
	u := c.UpdateStrategy
	return c.FeedbackScrapeType == "" || u != nil &&
		(u.Type == "" || u.ServerSideApply != nil && u.ServerSideApply.FieldManager == "")
}

func fill(c *workv1.ManifestConfigOption) {
	c.FeedbackScrapeType = cmp.Or(c.FeedbackScrapeType, workv1.FeedbackPollType)
	if c.UpdateStrategy == nil {
		return
	}
	u := *c.UpdateStrategy
	u.Type = cmp.Or(u.Type, workv1.UpdateStrategyTypeUpdate)
	if u.ServerSideApply != nil {
		a := *u.ServerSideApply
		a.FieldManager = cmp.Or(a.FieldManager, workv1.DefaultFieldManager)
		u.ServerSideApply = &a
	}
	c.UpdateStrategy = &u
}
