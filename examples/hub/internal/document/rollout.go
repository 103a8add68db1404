// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"errors"
	"regexp"
	"strings"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Provider is the provider of all clusters, see package appcontext.
const Provider = "hub"

// ClusterID returns the ID of a cluster.
func ClusterID(name string) appcontext.ClusterID {
	return appcontext.ClusterID{Provider: Provider, Name: name}
}

// Rollout returns the rollout of an Application over its clusters, or nil if the document has none.
// The error for a rollout that cannot finish is an [*Error].
func (d *Document) Rollout(clusters []*Cluster) (*rsync.Rollout, error) {
	return d.rollout(func(c Clusters) (names []string) {
		for _, one := range c.of(clusters) {
			names = append(names, one.Metadata.Name)
		}
		return names
	})
}

func (d *Document) rollout(names func(Clusters) []string) (*rsync.Rollout, error) {
	a, ok := d.Object.(*Application)
	if !ok || a.Spec.Rollout == nil {
		return nil, nil //nolint:nilnil // no rollout
	}
	var app appcontext.App
	out, err := a.Spec.Rollout.Resolve(func(_ int, c Clusters) (ids []appcontext.ClusterID, _ error) {
		for _, name := range names(c) {
			ids = append(ids, ClusterID(name))
			app.Clusters = append(app.Clusters, appcontext.Cluster{ClusterID: ClusterID(name)})
		}
		return ids, nil
	})
	if err == nil {
		err = out.Validate(&appcontext.AppContext{Apps: []appcontext.App{app}})
	}
	var wrong *rsync.InvalidRolloutError
	if errors.As(err, &wrong) {
		path := clusterIndex.ReplaceAllString(initial.ReplaceAllStringFunc(wrong.Field, strings.ToLower), "")
		err = &Error{d.Where, spec.Child("rollout", path).String(), wrong.Problem}
	}
	return out, err
}

// The engine uses the field names of Go, and counts the selected clusters of a group.
var (
	initial      = regexp.MustCompile(`\b[A-Z]`)
	clusterIndex = regexp.MustCompile(`\[\d+\]$`)
)
