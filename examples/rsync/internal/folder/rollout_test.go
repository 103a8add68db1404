// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package folder_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/examples/rsync/internal/folder"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

func TestRollout(t *testing.T) {
	got, err := folder.Rollout([]byte(`
groups:
- {name: canary, clusters: [fake+cluster2], maxConcurrency: 1, maxFailures: 10%, approveBefore: true, wait: 1m, approveAfter: true}
maxConcurrency: 50%
maxFailures: 2
until: Ready
minSuccessTime: 30s
progressDeadline: 5m
rollbackOnFailure: true
`))
	want := &rsync.Rollout{
		Groups: []rsync.RolloutGroup{{
			Name: "canary", Clusters: []appcontext.ClusterID{{Provider: "fake", Name: "cluster2"}}, MaxConcurrency: "1",
			MaxFailures:   "10%",
			ApproveBefore: true, Wait: time.Minute, ApproveAfter: true,
		}},
		MaxConcurrency: "50%", MaxFailures: "2", Until: appcontext.OpStatusReady, MinSuccessTime: 30 * time.Second,
		ProgressDeadline:  5 * time.Minute,
		RollbackOnFailure: true,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestBadRollouts(t *testing.T) {
	for text, want := range map[string]string{
		"maxConcurency: 1":                          `unknown field "maxConcurency"`,
		"minSuccessTime: soon":                      `Rollout.MinSuccessTime: "soon": must be a duration`,
		"groups: [{name: a, clusters: [cluster1]}]": `groups[0].clusters[0]: "cluster1" is not provider+name`,
		"maxFailures: 1\nmaxFailures: 2":            `already set`,
		"groups: [{name: a, wait: 2}]":              `groups.wait: "number": must be a text, for example "5m"`,
		"maxFailures: 1.5":                          `maxFailures: "number 1.5": must be a whole number or a percentage`,
	} {
		if _, err := folder.Rollout([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
