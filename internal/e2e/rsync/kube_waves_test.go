// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	kubeconnector "github.com/spokewire/sdk-go/rsync/connector/kube"
)

// waveJob returns the manifest of a Job. No node runs its container: the test writes its status.
func waveJob(name, image string) string {
	return fmt.Sprintf("{apiVersion: batch/v1, kind: Job, metadata: {name: %s, namespace: NS}, spec: {template: "+
		"{metadata: {labels: {a: b}}, spec: {restartPolicy: Never, containers: [{name: a, image: %s}]}}}}", name, image)
}

// endJob writes the status of a Job that is complete or has failed.
func (s *kubeSite) endJob(name string, failed bool) {
	s.t.Helper()
	const now = "2026-01-01T00:00:00Z"
	counts, conditions := `"succeeded":1,"completionTime":"`+now+`"`, []string{"SuccessCriteriaMet", "Complete"}
	if failed {
		counts, conditions = `"failed":1`, []string{"FailureTarget", "Failed"}
	}
	for i, c := range conditions {
		conditions[i] = fmt.Sprintf(`{"type":%q,"status":"True","reason":"Test","lastTransitionTime":%q,"lastProbeTime":%q}`,
			c, now, now)
	}
	body := fmt.Sprintf(`{"status":{"startTime":%q,%s,"uncountedTerminatedPods":{},"conditions":[%s]}}`, now, counts,
		strings.Join(conditions, ","))
	_, err := s.client.BatchV1().Jobs(s.namespace).Patch(s.t.Context(), name, types.MergePatchType, []byte(body),
		metav1.PatchOptions{}, "status")
	if err != nil {
		s.t.Fatal(err)
	}
}

// awaitState waits until an object exists, or is gone.
func (s *kubeSite) awaitState(manifest string, exists bool) {
	s.t.Helper()
	eventually(s.t, func() string {
		if got := s.state(manifest); got.Exists != exists {
			return fmt.Sprintf("%+v", got)
		}
		return ""
	})
}

// TestKubeWaves: on an API server, a hook is deleted when it has succeeded. A wave waits for a Job
// and a CRD of the wave before. A changed hook replaces the Job of an earlier run. A failed hook is
// deleted, and the app fails.
func TestKubeWaves(t *testing.T) {
	t.Parallel()
	s := newKubeSite(t, nil, kubeconnector.Options{})
	group := s.namespace + ".example.com"
	engine := startEngine(t, newKubeConnectors(t, map[string]kubeconnector.Cluster{"edge+*": {Config: s.config}},
		kubeconnector.Options{}), rsync.Options{
		PollInterval: 100 * time.Millisecond,
	})
	build := func(id, image string) {
		createContext(t, engine, id, func(b *appcontext.Builder) {
			web := b.App("web")
			add := func(r appcontext.Resource, manifest string) {
				r.Manifest = []byte(strings.ReplaceAll(manifest, "NS", s.namespace))
				web.Add("edge", "c1", r)
			}
			add(appcontext.Resource{Wave: 1}, thing(group, "one", 1))
			add(appcontext.Resource{}, waveJob("seed", "a"))
			add(appcontext.Resource{}, crd(group))
			add(appcontext.Resource{Hook: appcontext.HookPreInstall, DeletePolicies: []appcontext.HookDeletePolicy{
				appcontext.HookDeletePolicySucceeded,
			}}, waveJob("migrate", "a"))
			add(appcontext.Resource{Hook: appcontext.HookPostInstall, DeletePolicies: []appcontext.HookDeletePolicy{
				appcontext.HookDeletePolicyBeforeCreation, appcontext.HookDeletePolicyFailed,
			}}, waveJob("check", image))
		})
	}
	build("v1", "one")
	build("v2", "two")
	ref, err := engine.Instantiate(t.Context(), "v1")
	if err != nil {
		t.Fatal(err)
	}
	s.awaitState(waveJob("migrate", "a"), true)
	if s.state(waveJob("seed", "a")).Exists {
		t.Error("the first wave did not wait for the hook")
	}
	s.endJob("migrate", false)
	s.awaitState(waveJob("migrate", "a"), false)
	s.awaitState(waveJob("seed", "a"), true)
	s.awaitState(crd(group), true)
	eventually(t, func() string {
		status, err := engine.Status(t.Context(), "v1")
		if err != nil {
			return err.Error()
		}
		if web := status.Cluster("web", kube1); web == nil || web.Reason != rsync.ReasonNotReady ||
			!strings.Contains(web.Message, "seed") {
			return fmt.Sprintf("%+v", web)
		}
		return ""
	})
	if s.state(thing(group, "one", 1)).Exists {
		t.Error("the second wave did not wait for the first")
	}
	s.endJob("seed", false)
	s.awaitState(thing(group, "one", 1), true)
	s.awaitState(waveJob("check", "one"), true)
	s.endJob("check", false)
	if _, err := await(t, engine, ref, nil); err != nil {
		t.Fatal(err)
	}
	before, err := s.client.BatchV1().Jobs(s.namespace).Get(t.Context(), "check", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("the hook without hook-succeeded: %v", err)
	}
	ref, err = engine.Update(t.Context(), "v1", "v2") // the image of a Job is immutable
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		now, err := s.client.BatchV1().Jobs(s.namespace).Get(t.Context(), "check", metav1.GetOptions{})
		if err != nil || now.UID == before.UID {
			return fmt.Sprintf("the hook was not created again: %v", err)
		}
		return ""
	})
	s.endJob("check", true)
	_, err = await(t, engine, ref, nil)
	if err == nil || !strings.Contains(err.Error(), "HookFailed") || !strings.Contains(err.Error(), "check") {
		t.Errorf("after the hook has failed: %v", err)
	}
	if s.state(waveJob("check", "two")).Exists {
		t.Error("the failed hook was not deleted")
	}
	for _, id := range []string{"v2", "v1"} { // v1 still holds its objects, because the update has failed
		ref, err = engine.Terminate(t.Context(), id)
		if _, err := await(t, engine, ref, err); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []string{waveJob("seed", "a"), waveJob("migrate", "a"), waveJob("check", "two"), crd(group)} {
		s.awaitState(m, false)
	}
}
