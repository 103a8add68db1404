// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// withHook returns an application with a ConfigMap, and a Job as a hook.
func withHook(hook string) string {
	return application("shop", "a=1") + "    - hook: " + hook +
		"\n      template: |\n        {apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: x}}\n"
}

// job makes the agent of a cluster report that the Job runs, or that it ended: Complete or Failed.
// An agent reports a failed Job as progressing and degraded.
func (s *site) job(cluster, ended string) {
	s.clusters[cluster].Report(func(object string, m *workv1.ManifestCondition) {
		if object != "Job x/j" {
			return
		}
		generation := m.Conditions[0].ObservedGeneration
		say := func(kind string, is bool, message string) {
			c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "Job", Message: message,
				ObservedGeneration: generation, LastTransitionTime: metav1.Unix(1_700_000_000, 0)}
			if is {
				c.Status = metav1.ConditionTrue
			}
			m.Conditions = append(m.Conditions, c)
		}
		status, conditions := `{"active": 1}`, `{"conditions": [{"type": "`+ended+`", "status": "True"}]}`
		if ended != "" {
			status = conditions
			isTrue := "True"
			m.StatusFeedbacks.Values = append(m.StatusFeedbacks.Values,
				workv1.FeedbackValue{Name: "Job" + ended, Value: workv1.FieldValue{Type: workv1.String, String: &isTrue}})
		}
		m.StatusFeedbacks.Values = append(m.StatusFeedbacks.Values,
			workv1.FeedbackValue{Name: "status", Value: workv1.FieldValue{Type: workv1.JsonRaw, JsonRaw: &status}})
		say("StatusFeedbackSynced", true, "")
		say(workv1.ManifestProgressing, ended == "Failed", "Job has failed")
		say(workv1.ManifestDegraded, ended == "Failed", "BackoffLimitExceeded: Job has reached the specified backoff limit")
	})
}

// shows waits until the status of the application contains a text.
func (s *site) shows(want string) {
	s.t.Helper()
	s.showsOn("/api/v1/applications/shop/status", want)
}

// showsOn waits until a resource contains a text.
func (s *site) showsOn(path, want string) {
	s.t.Helper()
	got := ""
	for end := time.Now().Add(patience); !strings.Contains(got, want); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("%s, want %s", got, want)
		}
		got = s.must("GET", path, "")
	}
}

const runs = "batch/Job x/j is not ready yet: the job is not complete"

const fails = "batch/Job x/j: it has failed: the job has failed: BackoffLimitExceeded: Job has reached the specified " +
	"backoff limit"

// TestHook checks that an application reports the running hook that it waits for, and that it fails
// with the hook.
func TestHook(t *testing.T) {
	s := newSite(t, "c1", "c2")
	s.job("c1", "")
	s.job("c2", "Complete")
	s.start()
	for _, name := range []string{"c1", "c2"} {
		s.must("PUT", "/api/v1/clusters/"+name, cluster(name, ""))
	}
	s.must("PUT", "/api/v1/applications/shop", withHook("pre-install"))
	s.must("PUT", "/api/v1/placements/p", placement("p", "shop", all))
	s.shows(`"sync":"OutOfSync","health":"Progressing","reason":"waits for `)
	s.shows(`"clusters":[{"application":"shop","name":"c1","sync":"OutOfSync","health":"Progressing","reason":"`)
	s.becomes("shop", "OutOfSync Progressing 1 waits for c1: main: "+runs)
	s.shows(`{"application":"shop","name":"c1","sync":"OutOfSync","health":"Progressing","reason":"main: ` + runs + `"}`)
	s.showsOn("/", "waits for c1: main: "+runs)
	s.job("c1", "Failed")
	s.shows(`"sync":"OutOfSync","health":"Degraded","reason":"`)
	s.shows("main on hub+c1: HookFailed: the cluster refused " + fails)
	s.logs(fails)
	s.job("c1", "Complete")
	s.becomes("shop", "Synced Healthy 1")
}

// TestHookDelaysRemoval checks that an application reports the hook that delays its removal, also after
// a restart.
func TestHookDelaysRemoval(t *testing.T) {
	s := newSite(t, "c1")
	s.start()
	s.must("PUT", "/api/v1/applications/shop", withHook("pre-delete"))
	s.place("shop", "c1")
	s.becomes("shop", "Synced Healthy 1")
	s.job("c1", "")
	s.must("DELETE", "/api/v1/placements/p", "")
	s.becomes("shop", "OutOfSync Progressing 2 waits for c1: main: "+runs)
	s.must("DELETE", "/api/v1/applications/shop", "")
	s.becomes("shop", "OutOfSync Progressing  it is being removed; waits for c1: main: "+runs)
	s.shows(`"sync":"OutOfSync","health":"Progressing","reason":"main: ` + runs + `"}`)
	s.stop()
	s.start()
	s.becomes("shop", "OutOfSync Progressing  it is being removed; waits for c1: main: "+runs)
	s.job("c1", "Failed")
	s.shows(`"sync":"OutOfSync","health":"Degraded","reason":"`)
	s.shows("main on hub+c1: HookFailed: the cluster refused " + fails)
	s.logs(fails)
	s.job("c1", "Complete")
	s.gone("shop")
}

// TestRollbackWaitsForOfflineCluster checks the statuses while a rollback waits for a cluster. Another cluster
// reports that it still has objects of the reverted revision.
func TestRollbackWaitsForOfflineCluster(t *testing.T) {
	s := newSite(t, "c1")
	leave := s.agent("c2")
	s.job("c1", "Complete")
	s.job("c2", "Complete")
	s.start()
	hook, _ := strings.CutPrefix(withHook("post-install"), application("shop", "a=1"))
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1")+hook)
	s.place("shop", "c1", "c2")
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=2", "b=2")+hook)
	s.becomes("shop", "Synced Healthy 2")
	leave()
	s.must("POST", "/api/v1/applications/shop/rollback", "")
	s.shows(`{"application":"shop","name":"c1","revision":"1","sync":"OutOfSync","health":"Progressing",` +
		`"reason":"ConfigMap x/b of revision 2 still exists"}`)
	s.showsOn("/applications/shop", "ConfigMap x/b of revision 2 still exists")
	s.agent("c2")
	s.shows(`"held":1`)
	s.shows(`"on":{"Healthy":2},"clusters":[` +
		`{"application":"shop","name":"c1","revision":"1","sync":"Synced","health":"Healthy"`)
	s.shows(`{"application":"shop","name":"c2","revision":"1","sync":"Synced","health":"Healthy"`)
}
