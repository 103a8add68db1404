// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// killed kills the process at the first write of a phase of a work's life. It repeats this at the
// second write and so on, until the phase needs fewer writes. Each time another process continues,
// and nothing is lost.
func (s *scene) killed(phase string, executed bool) {
	t := s.t
	for n := 1; ; n++ {
		id := fmt.Sprint(n)
		a, b, changed, role := s.configMap(id+"-a", "1"), s.configMap(id+"-b", "1"), s.configMap(id+"-a", "2"),
			s.clusterRole(id)
		during := func(now string, do func(), until func()) (killed bool) {
			if now == phase {
				s.process.arm(n, executed)
			}
			do()
			until()
			return s.process.disarm() && now == phase
		}
		applied := func(generation int64, manifests ...string) func() {
			return func() {
				t.Helper()
				s.alive(fmt.Sprintf("generation %d of %s is applied", generation, id),
					func() error { return s.isApplied(id, generation, len(manifests)) })
				s.owns(id, manifests...)
			}
		}
		hit := during("create", func() { s.create(id, spec(a, b, role)) }, applied(1, a, b, role))
		hit = during("update", func() { s.update(id, manifests(changed, role)) }, func() {
			s.alive(id+" is pruned", func() error {
				if s.get(b) != nil || len(s.record(id).Status.AppliedResources) != 2 {
					return errors.New("it is not")
				}
				return nil
			})
			applied(2, changed, role)()
		}) || hit
		hit = during("delete", func() { s.delete(id) }, func() {
			s.alive(id+" is gone", func() error {
				if _, err := s.work(id); !apierrors.IsNotFound(err) {
					return fmt.Errorf("it is there: %w", err)
				}
				return nil
			})
		}) || hit
		s.absent(a, b, role)
		if record := s.record(id); record != nil {
			t.Errorf("the AppliedWork is there: %+v", record)
		}
		if t.Failed() || !hit {
			t.Logf("%d writes", n-1)
			if n < 3 {
				t.Errorf("the process was killed at %d writes: too few to be true", n-1)
			}
			return
		}
	}
}

// isApplied returns an error if a generation is not reported as applied.
func (s *scene) isApplied(name string, generation int64, manifests int) error {
	w, err := s.work(name)
	if err != nil {
		return err
	}
	c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
	if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != generation ||
		len(w.Status.ResourceStatus.Manifests) != manifests {
		return fmt.Errorf("%+v", c)
	}
	return nil
}

// stored: an agent with a store still has its works when it restarts without the broker. The broker
// requires TLS and a password, both read from files.
func (w *world) stored(t *testing.T) {
	own, folder, ca := *w, t.TempDir(), certtest.New(t)
	cert, key := ca.Issue(t, "broker").Write(t, folder, "broker")
	own.broker = mosquitto.Start(t,
		mosquitto.Options{CertFile: cert, KeyFile: key, Users: map[string]string{"user": "secret"}})
	password := filepath.Join(folder, "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own.access = mqtt.Options{CAFile: ca.Write(t, folder, "ca"), Username: "user", PasswordFile: password}
	own.source = own.newSource(t, "hub", nil)
	s := own.managed(t, "mqtt", "stored", "--store", filepath.Join(folder, "works.db"), "--listen", "127.0.0.1:0",
		"--broker-ca", own.access.CAFile, "--username", "user", "--password-file", password)
	s.create("w", spec(s.configMap("a", "1"), s.configMap("b", "1")))
	s.applied("w")
	s.serves("/healthz", http.StatusOK, "ok")
	s.serves("/readyz", http.StatusOK, "ok")
	s.serves("/metrics", http.StatusOK, `spokewire_dynamicwatcher_watches{name="work-agent",state="Active"} 2`)
	own.broker.Stop()
	s.process.kill()
	obj := s.object(s.configMap("a", ""))
	if err := s.resource(obj).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.by("somebody", s.configMap("b", ""), `{"data":{"value":"theirs"}}`)
	s.process.run()
	s.serves("/readyz", http.StatusServiceUnavailable, "not connected")
	eventually(t, "drift is undone without a broker", func() error {
		if got := s.value("a") + " " + s.value("b"); got != "1 1" {
			return errors.New(got)
		}
		return nil
	})
	s.update("w", manifests(s.configMap("a", "2")))
	own.broker.Restart()
	s.applied("w")
	eventually(t, "what the work does not have is pruned", func() error {
		if s.get(s.configMap("b", "")) != nil || len(s.record("w").Status.AppliedResources) != 1 {
			return errors.New("it is not")
		}
		return nil
	})
	s.owns("w", s.configMap("a", ""))
	if got := s.value("a"); got != "2" {
		t.Errorf("the value is %s", got)
	}
	s.delete("w")
	s.gone("w")
}

// serves waits until the newest process returns this response.
func (s *scene) serves(path string, status int, want string) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%s is %d", path, status), func() error {
		got, body, err := s.process.fetch(path)
		if err == nil && (got != status || !strings.Contains(body, want)) {
			err = fmt.Errorf("%d: %s", got, body)
		}
		return err
	})
}

// untracked: an object from a late request of an earlier process is found, and pruned if the work
// does not want it. An object of another hub is left to its own agent.
func (s *scene) untracked() {
	t := s.t
	s.create("w", spec(s.configMap("a", "1")))
	s.applied("w")
	record := s.owns("w", s.configMap("a", ""))
	s.process.kill()
	other := s.existing(
		`{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"AppliedWork","metadata":{"name":"another-hub"},"spec":{"workName":"w","workNamespace":"` + s.name + `"}}`)
	late := func(name string, owner metav1.Object) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q,"ownerReferences":[
			{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"AppliedWork","name":%q,"uid":%q}]}}`, name, s.ns, owner.GetName(), owner.GetUID())
	}
	s.existing(late("ours", record))
	s.existing(late("theirs", other))
	s.process.run()
	eventually(t, "what was late is pruned", func() error {
		if s.get(s.configMap("ours", "")) != nil || len(s.record("w").Status.AppliedResources) != 1 {
			return errors.New("it is not")
		}
		return nil
	})
	now, err := s.resource(other).Get(t.Context(), other.GetName(), metav1.GetOptions{})
	if err != nil || field(now, "status", "appliedResources") != nil || s.get(s.configMap("theirs", "")) == nil {
		t.Errorf("what belongs to another hub is %v, %v", now, err)
	}
}

// evicted: objects of works that the hub has lost are deleted after the grace period, unless the
// works return.
func (s *scene) evicted() {
	t := s.t
	stays := spec(s.configMap("stays", "1"))
	stays.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
	s.create("goes", spec(s.configMap("goes", "1")))
	s.create("orphan", stays)
	s.create("back", spec(s.configMap("back", "1")))
	for _, name := range []string{"goes", "orphan", "back"} {
		s.applied(name)
	}
	uid := s.get(s.configMap("back", "")).GetUID()
	s.process.kill()
	s.forget("goes", "orphan", "back")
	s.process.run()
	eventually(t, "the eviction begins", func() error {
		if record := s.record("back"); record == nil || record.Annotations[v1alpha1.AnnotationEvictionStart] == "" {
			return fmt.Errorf("%+v", record)
		}
		return nil
	})
	s.process.kill() // the process starts no new eviction
	s.create("back", spec(s.configMap("back", "2")))
	s.process.run()
	s.applied("back")
	if record := s.owns("back", s.configMap("back", "")); record.Annotations[v1alpha1.AnnotationEvictionStart] != "" ||
		s.get(s.configMap("back", "")).GetUID() != uid {
		t.Errorf("what came back is evicted: %+v", record)
	}
	eventually(t, "what the hub has lost is gone", func() error {
		if s.get(s.configMap("goes", "")) != nil || s.record("goes") != nil || s.record("orphan") != nil {
			return errors.New("it is there")
		}
		return nil
	})
	if live := s.get(s.configMap("stays", "")); live == nil || len(live.GetOwnerReferences()) > 0 {
		t.Errorf("what the delete option leaves is %v", live)
	}
	s.applied("back")
}

// forget removes works from the hub while no agent watches.
func (s *scene) forget(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.delete(name)
	}
	if s.name == "evict-mqtt" {
		if err := s.source.Forget(s.t.Context(), s.name); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	for _, name := range names {
		patch := []byte(`{"metadata":{"finalizers":null}}`)
		if _, err := s.works.WorkV1().ManifestWorks(s.name).Patch(s.t.Context(), s.id(name), types.MergePatchType, patch,
			metav1.PatchOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// polled: objects that are too many for watches are polled.
func (s *scene) polled() {
	work := spec(s.configMap("a", "1"))
	work.ManifestConfigs = []workv1.ManifestConfigOption{s.configure("a", func(o *workv1.ManifestConfigOption) {
		o.FeedbackRules = []workv1.FeedbackRule{{Type: workv1.JSONPathsType,
			JsonPaths: []workv1.JsonPath{{Name: "more", Path: ".data.more"}}}}
	})}
	s.create("w", work)
	s.applied("w")
	s.by("somebody", s.configMap("a", ""), `{"data":{"value":"theirs","more":"theirs"}}`)
	eventually(s.t, "drift is undone", func() error {
		if got := s.value("a"); got != "1" {
			return errors.New(got)
		}
		return nil
	})
	s.until("w", "reports the value", func(w *workv1.ManifestWork) error {
		if values := w.Status.ResourceStatus.Manifests[0].StatusFeedbacks.Values; len(values) != 1 ||
			*values[0].Value.String != "theirs" {
			return fmt.Errorf("%+v", values)
		}
		return nil
	})
	s.delete("w")
	s.gone("w")
	s.absent(s.configMap("a", ""))
}
