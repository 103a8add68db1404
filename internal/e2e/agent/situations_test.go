// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// TestSituations runs tests on one cluster, most with their own agent.
func TestSituations(t *testing.T) {
	w := newWorld(t)
	for name, test := range map[string]func(*testing.T){
		"One":       w.one,
		"TwoHubs":   w.twoHubs,
		"Unwatched": w.unwatched,
		"TwoServers": func(t *testing.T) {
			hub := kube.Start(t, kube.Options{CRDs: []string{kube.ManifestWorkCRDs(t)}})
			s := w.agent(t, "servers", w.cluster.Config(), "--hub-kubeconfig", hub.Kubeconfig())
			s.works = workclientset.NewForConfigOrDie(hub.Config())
			(&world{core: kubernetes.NewForConfigOrDie(hub.Config())}).namespace(t, "servers")
			story(s)
		},
		"AdoptDefault": func(t *testing.T) { w.managed(t, "kube", "default-adoption").adoption("", "unowned", "owned") },
		"Reinstalled":  func(t *testing.T) { w.managed(t, "kube", "reinstalled").reinstalled() },
		"AdoptUnowned": func(t *testing.T) {
			w.managed(t, "kube", "unowned", "--adopt", "unowned").adoption("unowned",
				"owned")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// one runs the tests that can follow each other on one agent.
func (w *world) one(t *testing.T) {
	s := w.managed(t, "kube", "one", "--listen", "127.0.0.1:0", "--adopt", "always")
	for _, test := range []struct {
		name string
		run  func(*scene)
	}{
		{"Managers", (*scene).managers}, {"Requests", (*scene).requests}, {"Ignored", (*scene).ignored},
		{"Rivals", (*scene).rivals}, {"Metrics", (*scene).metrics}, {"Records", (*scene).records},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(s.in(t, strings.ToLower(test.name))) })
	}
}

// agent starts an agent that reaches the managed cluster with a configuration. The namespaces
// exist.
func (w *world) agent(t *testing.T, cluster string, config *rest.Config, flags ...string) *scene {
	t.Helper()
	args := []string{"--cluster", cluster, "--hub-name", cluster + "-hub", "-v", "2"}
	s := &scene{world: w, t: t, name: cluster, ns: cluster + "-objects",
		process: newProcess(t, config, append(args, flags...)...)}
	w.namespace(t, s.ns)
	s.process.run()
	return s
}

// adoption: an existing object that must not be adopted stays unchanged, is reported, and does not
// affect the end of the work.
func (s *scene) adoption(adopted string, refused ...string) {
	s.existing(s.configMap("unowned", "theirs"))
	owner := s.existing(s.configMap("owner", "theirs"))
	s.existing(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"owned","namespace":%q,"ownerReferences":[
		{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":%q}]},"data":{"value":"theirs"}}`, s.ns, owner.GetUID()))
	s.create("w", spec(s.configMap("unowned", "ours"), s.configMap("owned", "ours"), s.configMap("new", "ours")))
	s.until("w", "reports what is not adopted", func(w *workv1.ManifestWork) error {
		errs := []error{has(w.Status.ResourceStatus.Manifests[2].Conditions, workv1.ManifestApplied, metav1.ConditionTrue,
			"")}
		for _, name := range refused {
			i := map[string]int{"unowned": 0, "owned": 1}[name]
			errs = append(errs, has(w.Status.ResourceStatus.Manifests[i].Conditions, workv1.ManifestApplied,
				metav1.ConditionFalse, "exists and is"),
				has(w.Status.ResourceStatus.Manifests[i].Conditions, workv1.ManifestAvailable, metav1.ConditionTrue, ""))
		}
		return errors.Join(errs...)
	})
	for _, name := range refused {
		live := s.get(s.configMap(name, ""))
		if s.value(name) != "theirs" || len(live.GetAnnotations()) > 0 || len(live.GetManagedFields()) != 1 {
			s.t.Errorf("%s, which is not adopted, is %v", name, live)
		}
	}
	if adopted != "" && s.value(adopted) != "ours" {
		s.t.Errorf("%s is not adopted", adopted)
	}
	s.delete("w")
	s.gone("w")
	s.absent(s.configMap("new", ""))
	if adopted != "" && s.value(adopted) != "ours" {
		s.t.Errorf("%s existed before the work, and was deleted with it", adopted)
	}
	for _, name := range refused {
		if got := s.value(name); got != "theirs" {
			s.t.Errorf("%s is %s after the end of the work", name, got)
		}
	}
}

// reinstalled: an agent that adopts nothing recognizes its own objects, by their owner references
// if the inventory is lost.
func (s *scene) reinstalled() {
	s.create("w", spec(s.configMap("a", "1"), s.configMap("b", "1")))
	s.applied("w")
	record, uid := s.record("w"), s.get(s.configMap("a", "")).GetUID()
	s.process.kill()
	s.by("admin", fmt.Sprintf(
		`{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"AppliedWork","metadata":{"name":%q}}`,
		record.Name), `{"status":{"appliedResources":null}}`, "status")
	s.update("w", manifests(s.configMap("a", "2"), s.configMap("b", "1")))
	s.process.run()
	s.applied("w")
	now, again := s.owns("w", s.configMap("a", ""), s.configMap("b", "")), s.get(s.configMap("a", "")).GetUID()
	if now.UID != record.UID || again != uid || s.value("a") != "2" {
		s.t.Errorf("after the restart the record is %+v, and the object %s has the value %s", now, again, s.value("a"))
	}
	s.delete("w")
	s.gone("w")
	s.absent(s.configMap("a", ""), s.configMap("b", ""))
}

// rivals: two works with different versions of one object both report it, and do not keep the
// cluster busy.
func (s *scene) rivals() {
	s.create("one", spec(s.configMap("c", "1")))
	s.applied("one")
	s.create("two", spec(s.configMap("c", "2")))
	for _, name := range []string{"one", "two"} {
		s.until(name, "is contested", func(w *workv1.ManifestWork) error {
			rival := s.record(map[string]string{"one": "two", "two": "one"}[name])
			if rival == nil {
				return errors.New("the other is not there yet")
			}
			return errors.Join(has(w.Status.Conditions, "Contested", metav1.ConditionTrue, "1 of 1 resources"),
				has(w.Status.ResourceStatus.Manifests[0].Conditions, "Contested", metav1.ConditionTrue, "AppliedWork "+rival.Name))
		})
	}
	s.update("two", manifests(s.configMap("c", "1")))
	s.applied("two")
	eventually(s.t, "they agree", func() error {
		if got := s.value("c"); got != "1" {
			return errors.New(got)
		}
		return nil
	})
	for _, name := range []string{"one", "two"} {
		s.delete(name)
		s.gone(name)
	}
	s.absent(s.configMap("c", ""))
}

// metrics: an operator sees the state of works.
func (s *scene) metrics() {
	s.create("good", spec(s.configMap("a", "1")))
	s.create("bad", spec(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`))
	s.applied("good")
	for _, line := range []string{
		"spokewire_agent_works 2", `spokewire_agent_work_conditions{status="False",type="Applied"} 1`,
		`spokewire_agent_work_conditions{status="True",type="Applied"} 1`,
		`spokewire_agent_manifests{applied="False",reason="AppliedManifestFailed"} 1`,
		`spokewire_agent_manifests{applied="True",reason="AppliedManifestComplete"} 1`,
		`workqueue_depth{name="manifestworks"}`, `spokewire_agent_served_total{result="failed"}`,
		"spokewire_agent_apply_seconds_count",
		`spokewire_dynamicwatcher_watches{name="work-agent",state="Active"}`, "process_cpu_seconds_total",
	} {
		s.serves("/metrics", http.StatusOK, line)
	}
	s.serves("/healthz", http.StatusOK, "ok")
	s.serves("/readyz", http.StatusOK, "ok")
	for _, name := range []string{"good", "bad"} {
		s.delete(name)
		s.gone(name)
	}
}

// twoHubs: two agents of two hubs with the same name leave the other's objects alone, and report
// them. The flag --hub-was allows the move of a hub.
func (w *world) twoHubs(t *testing.T) {
	a := w.managed(t, "mqtt", "hubs")
	a.create("both", spec(a.configMap("both", "a")))
	a.create("lonely", spec(a.configMap("lonely", "a")))
	a.applied("both")
	a.applied("lonely")
	records := map[string]string{"both": string(a.record("both").UID), "lonely": string(a.record("lonely").UID)}

	b := *a
	b.works = workclientset.NewForConfigOrDie(w.cluster.Config())
	flags := []string{"--cluster", "hubs", "--hub-name", "hubs-hub", "-v", "2", "--hub-kubeconfig",
		throughProxy, "--eviction-grace", "1s"}
	b.process = newProcess(t, w.cluster.Config(), flags...)
	b.create("both", spec(b.configMap("both", "b")))
	b.create("own", spec(b.configMap("own", "b")))
	b.process.run()
	b.applied("own")
	foreign := "belongs to the hub at " + w.broker.URL() + ", source hub"
	b.until("both", "is refused", func(w *workv1.ManifestWork) error {
		return has(w.Status.Conditions, workv1.WorkApplied, metav1.ConditionFalse, foreign)
	})
	b.process.logs(t, `msg="Failed to remove the objects of a work that the hub does not have" cluster=hubs work=`+
		b.id("lonely")+` err="AppliedWork `+b.record("lonely").Name+" "+foreign)
	b.delete("both")
	eventually(t, "the refused work is gone", func() error {
		if _, err := b.work("both"); err == nil {
			return errors.New("it is there")
		}
		return nil
	})
	for name, uid := range records {
		if record := a.record(name); record == nil || string(record.UID) != uid || record.DeletionTimestamp != nil ||
			a.value(name) != "a" {
			t.Errorf("what the other hub has of %s is %+v", name, record)
		}
	}

	// One hub that has moved: its works are at its new address.
	a.process.stop()
	b.process.stop()
	moved := b
	moved.process = newProcess(t, w.cluster.Config(), append(flags, "--hub-was", w.broker.URL())...)
	moved.create("both", spec(b.configMap("both", "moved")))
	moved.process.run()
	moved.applied("both")
	if record := moved.owns("both", b.configMap("both", "")); string(record.UID) != records["both"] ||
		moved.value("both") != "moved" {
		t.Errorf("what the hub had is %+v", record)
	}
	eventually(t, "what the hub does not have any more is gone", func() error {
		if moved.record("lonely") != nil || moved.get(moved.configMap("lonely", "")) != nil {
			return errors.New("it is there")
		}
		return nil
	})
	for _, name := range []string{"both", "own"} {
		moved.delete(name)
		moved.gone(name)
	}
}

// unwatched: objects that the agent may not watch are polled. This is reported until the agent may
// watch them.
func (w *world) unwatched(t *testing.T) {
	const user = "without-watch"
	kinds := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"without-watch"},"rules":[
		{"apiGroups":["multicluster.x-k8s.io","apiextensions.k8s.io"],"resources":["*"],"verbs":["*"]},
		{"apiGroups":[""],"resources":["configmaps"],"verbs":[%s"get","list","create","patch","update","delete"]}]}`
	s := &scene{world: w, t: t, name: "unwatched", ns: "unwatched-objects"}
	role := s.existing(fmt.Sprintf(kinds, ""))
	s.existing(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"without-watch"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"without-watch"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"without-watch"}]}`)
	works, _ := w.hub(t, "kube", "unwatched")
	s = w.agent(t, "unwatched", w.cluster.User(user), "--hub-kubeconfig", w.cluster.Kubeconfig(),
		"--poll", "1s")
	s.works = works
	s.create("w", spec(s.configMap("c", "1")))
	s.until("w", "says that it is not watched", func(w *workv1.ManifestWork) error {
		return errors.Join(has(w.Status.Conditions, workv1.WorkApplied, metav1.ConditionTrue, ""),
			has(w.Status.Conditions, "ObjectsWatched", metav1.ConditionFalse, "ConfigMap: grant it watch"))
	})
	s.by("somebody", s.configMap("c", ""), `{"data":{"value":"theirs"}}`)
	eventually(t, "drift is undone", func() error {
		if got := s.value("c"); got != "1" {
			return errors.New(got)
		}
		return nil
	})
	s.by("admin", kindAndName(role.GetKind(), role.GetName()), fmt.Sprintf(kinds, `"watch",`))
	s.until("w", "is watched",
		func(w *workv1.ManifestWork) error { return has(w.Status.Conditions, "ObjectsWatched", "", "") })
	s.delete("w")
	s.gone("w")
}

func kindAndName(kind, name string) string {
	return fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":%q,"metadata":{"name":%q}}`, kind, name)
}

// logs waits until the process has printed a text.
func (p *process) logs(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the agent logs "+text, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !strings.Contains(p.log(), text) {
			return errors.New("it does not")
		}
		return nil
	})
}
