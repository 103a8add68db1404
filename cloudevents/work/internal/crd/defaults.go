// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"slices"

	workv1 "open-cluster-management.io/api/work/v1"
)

// Default sets the CRD's defaults where the JSON of a typed client has no value: the field is empty
// and has the tag omitempty. It replaces values behind pointers instead of changing them, since
// they may be shared. It allocates nothing if all values are set.
func Default(s *workv1.ManifestWorkSpec) {
	cloned := false
	for i := range s.ManifestConfigs {
		c := &s.ManifestConfigs[i]
		if !lacks(c) {
			continue
		}
		if !cloned {
			s.ManifestConfigs, cloned = slices.Clone(s.ManifestConfigs), true
			c = &s.ManifestConfigs[i]
		}
		fill(c)
	}
}

// lacks reports whether fill would change something.
func lacks(c *workv1.ManifestConfigOption) bool {
	u := c.UpdateStrategy
	return c.FeedbackScrapeType == "" || u != nil &&
		(u.Type == "" || u.ServerSideApply != nil && u.ServerSideApply.FieldManager == "")
}

func fill(c *workv1.ManifestConfigOption) {
	if c.FeedbackScrapeType == "" {
		c.FeedbackScrapeType = workv1.FeedbackPollType
	}
	if c.UpdateStrategy == nil {
		return
	}
	u := *c.UpdateStrategy
	if u.Type == "" {
		u.Type = workv1.UpdateStrategyTypeUpdate
	}
	if u.ServerSideApply != nil {
		a := *u.ServerSideApply
		if a.FieldManager == "" {
			a.FieldManager = workv1.DefaultFieldManager
		}
		u.ServerSideApply = &a
	}
	c.UpdateStrategy = &u
}
