// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package wavetest has the app context with which connectors test waves and hooks.
package wavetest

import (
	"fmt"
	"testing"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Context returns an app context with the app web on one cluster, in namespace shop:
//
//   - the Job migrate, a pre-install hook with the given delete policies,
//   - the ConfigMap early and the Job seed in wave 0, and the ConfigMap late in wave 1,
//   - the Job check, a post-install hook that is deleted before it is created again, and when it fails.
//
// The image is that of check.
func Context(
	t testing.TB, id string, on appcontext.ClusterID, image string, migrate ...appcontext.HookDeletePolicy,
) *appcontext.AppContext {
	t.Helper()
	b := appcontext.NewBuilder(id)
	add := func(r appcontext.Resource, manifest []byte) {
		r.Manifest = manifest
		b.App("web").Add(on.Provider, on.Name, r)
	}
	add(appcontext.Resource{Wave: 1}, configMap("late"))
	add(appcontext.Resource{}, job("seed", "a"))
	add(appcontext.Resource{}, configMap("early"))
	add(appcontext.Resource{Hook: appcontext.HookPreInstall, DeletePolicies: migrate}, job("migrate", "a"))
	add(appcontext.Resource{Hook: appcontext.HookPostInstall, DeletePolicies: []appcontext.HookDeletePolicy{
		appcontext.HookDeletePolicyBeforeCreation, appcontext.HookDeletePolicyFailed,
	}}, job("check", image))
	c, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func configMap(name string) []byte {
	return fmt.Appendf(nil, "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: shop}, data: {key: a}}",
		name)
}

func job(name, image string) []byte {
	return fmt.Appendf(nil,
		"{apiVersion: batch/v1, kind: Job, metadata: {name: %s, namespace: shop}, spec: {template: "+
			"{spec: {restartPolicy: Never, containers: [{name: a, image: %s}]}}}}", name, image)
}
