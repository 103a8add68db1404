// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// problemsOf returns the problems of an error of Build or Validate.
func problemsOf(err error) []*appcontext.Problem {
	var all *appcontext.Error
	if errors.As(err, &all) {
		return all.Problems
	}
	return nil
}

// TestInvalidHooks: Build rejects a hook that never ends and contradictory delete policies.
// The error has the field and the reason.
func TestInvalidHooks(t *testing.T) {
	job := func(spec string) string {
		return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec: " + spec
	}
	policies := func(all ...appcontext.HookDeletePolicy) []appcontext.HookDeletePolicy { return all }
	for name, test := range map[string]struct {
		resource appcontext.Resource
		manifest string
		fault    appcontext.Fault
		what     string // empty: it is accepted
	}{
		"all policies": {appcontext.Resource{
			Hook: appcontext.HookPreInstall, Wave: -5,
			DeletePolicies: policies(appcontext.HookDeletePolicyBeforeCreation, appcontext.HookDeletePolicySucceeded,
				appcontext.HookDeletePolicyFailed),
		}, job("{}"), "", ""},
		"no hook": {appcontext.Resource{DeletePolicies: policies(appcontext.HookDeletePolicyFailed)}, job("{}"),
			appcontext.FaultBadHook, "deletePolicies: hook-failed: the resource is not a hook"},
		"a definition": {appcontext.Resource{Hook: appcontext.HookCRDInstall,
			DeletePolicies: policies(appcontext.HookDeletePolicySucceeded)}, job("{}"),
			appcontext.FaultBadHook, "deletePolicies: hook-succeeded: hooks of crd-install stay"},
		"an unknown policy": {appcontext.Resource{Hook: appcontext.HookPreInstall, DeletePolicies: policies("hook-done")},
			job("{}"),
			appcontext.FaultBadHook, `deletePolicies: "hook-done"`},
		"a policy twice": {appcontext.Resource{
			Hook: appcontext.HookPreInstall, DeletePolicies: policies(appcontext.HookDeletePolicyFailed,
				appcontext.HookDeletePolicyFailed),
		}, job("{}"), appcontext.FaultDuplicate, "deletePolicies: hook-failed is repeated"},
		"a high wave": {appcontext.Resource{Wave: math.MaxInt32 + 1}, job("{}"),
			appcontext.FaultBadWave, "wave: 2147483648 does not fit into 32 bits"},
		"a low wave": {appcontext.Resource{Wave: math.MinInt32 - 1}, job("{}"),
			appcontext.FaultBadWave, "wave: -2147483649 does not fit into 32 bits"},
		"a suspended job": {appcontext.Resource{Hook: appcontext.HookPostDelete}, job("{suspend: true}"),
			appcontext.FaultBadHook, "the hook never ends: spec.suspend is true"},
		"a job without pods": {appcontext.Resource{Hook: appcontext.HookPreDelete}, job("{parallelism: 0}"),
			appcontext.FaultBadHook, "the hook never ends: spec.parallelism is 0"},
		"a suspended job in JSON": {appcontext.Resource{Hook: appcontext.HookPreInstall},
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"},"spec":{"suspend":true}}`,
			appcontext.FaultBadHook, "the hook never ends: spec.suspend is true"},
		"a paused deployment": {appcontext.Resource{Hook: appcontext.HookPostInstall},
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {paused: true}",
			appcontext.FaultBadHook, "the hook never ends: spec.paused is true"},
		"a job that runs": {appcontext.Resource{Hook: appcontext.HookPreInstall},
			job("{suspend: false, parallelism: 2}"), "", ""},
		"a suspended job that no event waits for": {appcontext.Resource{}, job("{suspend: true}"), "", ""},
		"the job of another API": {appcontext.Resource{Hook: appcontext.HookPreInstall},
			"apiVersion: example.com/v1\nkind: Job\nmetadata: {name: x}\nspec: {suspend: true}", "", ""},
		"a spec that is no object": {appcontext.Resource{Hook: appcontext.HookPreInstall}, job("[suspend]"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.resource.Manifest = []byte(test.manifest)
			b := appcontext.NewBuilder("id")
			b.App("web").Add("edge", "c1", test.resource)
			built, err := b.Build()
			problems := problemsOf(err)
			if test.what == "" {
				if err != nil || appcontext.Validate(built) != nil {
					t.Fatalf("refused: %v, %v", err, appcontext.Validate(built))
				}
				got := built.Apps[0].Clusters[0].Resources[0]
				if got.Wave != test.resource.Wave || len(got.DeletePolicies) != len(test.resource.DeletePolicies) ||
					got.Name != "x" {
					t.Errorf("built as %+v", got)
				}
				return
			}
			if len(problems) != 1 || problems[0].Fault != test.fault ||
				!strings.Contains(problems[0].What, test.what) ||
				!strings.Contains(problems[0].Where, `app "web", cluster "edge+c1"`) {
				t.Errorf("got %v, want %s: %s", err, test.fault, test.what)
			}
		})
	}
}

// TestDiffIgnoresWavesAndPolicies: a new wave or new delete policies do not count as a change of
// the object.
func TestDiffIgnoresWavesAndPolicies(t *testing.T) {
	build := func(r appcontext.Resource) *appcontext.AppContext {
		r.Manifest = manifest("Job", "x")
		b := appcontext.NewBuilder("id")
		b.App("web").Add("edge", "c1", r)
		c, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := build(appcontext.Resource{Hook: appcontext.HookPreInstall})
	after := build(appcontext.Resource{
		Hook: appcontext.HookPreInstall, Wave: 3,
		DeletePolicies: []appcontext.HookDeletePolicy{appcontext.HookDeletePolicyBeforeCreation},
	})
	for id, change := range appcontext.Diff(before, after, nil).Updated {
		if change != appcontext.ChangeUnchanged {
			t.Errorf("%s is %s", id, change)
		}
	}
}
