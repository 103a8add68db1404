// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext

import (
	"fmt"
	"maps"
	"slices"
)

// Override is a function that returns the manifest of an object for one cluster. Its argument is
// the manifest as it was added, in YAML or JSON. It must not change the argument. Its errors are
// part of the error of [Builder.Build], so they must not quote the manifest.
type Override func(manifest []byte) ([]byte, error)

type placedOverride struct {
	cluster  ClusterID
	object   Object
	override Override
}

// override applies overrides to the resources of an app. The resources that it changes are copied:
// an earlier context may share them.
func (v *validator) override(a *App, overrides []placedOverride) {
	if len(overrides) == 0 {
		return
	}
	for i := range a.Clusters {
		a.Clusters[i].Resources = slices.Clone(a.Clusters[i].Resources)
	}
	resources := maps.Collect(Resources([]App{*a}))
	for i, o := range overrides {
		where := fmt.Sprintf("app %q, override %d: cluster %q, %s", short(a.Name), i, short(o.cluster.String()), o.object)
		r := resources[Identity{o.cluster, o.object}]
		switch {
		case r == nil && a.Cluster(o.cluster) == nil:
			v.add(FaultBadOverride, where, "cluster: the app is not on that cluster")
		case r == nil:
			v.add(FaultBadOverride, where, "object: the app does not have it on that cluster")
		case o.override == nil:
			v.add(FaultBadOverride, where, "override: is nil")
		default:
			manifest, err := overridden(r.Manifest, o.override)
			if err != nil {
				v.add(FaultBadOverride, where, "%s", err)
				continue
			}
			r.Manifest = manifest
		}
	}
}

func overridden(manifest []byte, override Override) ([]byte, error) {
	before, err := headerOf(manifest)
	if err != nil {
		return nil, err
	}
	out, err := override(slices.Clone(manifest))
	if err != nil {
		return nil, err
	}
	if _, err := ParseObject(out); err != nil {
		return nil, fmt.Errorf("its result is not a manifest: %w", err)
	}
	after, err := headerOf(out)
	if err != nil {
		return nil, err
	}
	for _, field := range []struct{ name, before, after string }{
		{"apiVersion", before.apiVersion, after.apiVersion}, {"kind", before.kind, after.kind},
		{"metadata.name", before.name, after.name}, {"metadata.namespace", before.namespace, after.namespace},
	} {
		if field.before != field.after {
			return nil, fmt.Errorf("it changes %s from %q to %q: that is another object",
				field.name, short(field.before), short(field.after))
		}
	}
	return out, nil
}

// headerOf reads the header of a manifest that ParseObject accepts.
func headerOf(manifest []byte) (header, error) {
	text, err := jsonOf(manifest)
	if err != nil {
		return header{}, err
	}
	return parseHeader(text)
}
