// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

const (
	watches = `{"apiGroups":["*"],"resources":["*"],"verbs":["list","watch"]}`

	deployer    = `{"subject":{"type":"ServiceAccount","serviceAccount":{"namespace":"shop","name":"deployer"}}}`
	enforcement = `{"apiGroups":["multicluster.x-k8s.io"],"resources":["appliedworks/finalizers"],"verbs":["update"]}`
)

// spoke is a site on which an agent is installed. The agent runs as a process with the arguments of
// its Deployment and the token of its ServiceAccount.
type spoke struct {
	*site
	works workclientset.Interface
	args  []string
	agent *daemon.Daemon
}

// newSpoke installs and starts an agent. Own are flags of install, and flags are those of the agent.
func (s *site) newSpoke(own []string, flags ...string) *spoke {
	s.t.Helper()
	broker := mosquitto.Start(s.t, mosquitto.Options{})
	transport, err := mqtt.New(mqtt.Options{BrokerURL: broker.URL()})
	if err != nil {
		s.t.Fatal(err)
	}
	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "hub"})
	if err != nil {
		s.t.Fatal(err)
	}
	e2etest.Background(s.t, source.Start)
	if err := source.InventoryComplete(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	flags = append([]string{"--", "--cluster=cluster1", "--source=hub", "--broker=" + broker.URL()}, flags...)
	s.install("agent", append(own, flags...)...)
	// It starts after the CRD is there. The protection controllers end the deletion of volumes.
	s.cluster.StartControllerManager("--controllers=garbage-collector-controller,namespace-controller," +
		"persistentvolume-protection-controller,persistentvolumeclaim-protection-controller")
	a := &spoke{site: s, works: source.Clientset()}
	a.args = append(a.args, s.deployment("agent").Spec.Template.Spec.Containers[0].Args...)
	a.args = append(a.args, "--kubeconfig="+s.account("agent"), "--listen=127.0.0.1:0",
		"--store="+filepath.Join(s.t.TempDir(), "works.db"), "--poll=1s")
	a.start()
	s.t.Cleanup(func() {
		a.agent.Stop()
		if s.t.Failed() {
			s.t.Logf("agent: %s", a.agent.Log())
		}
	})
	return a
}

func (a *spoke) start() {
	a.t.Helper()
	var err error
	if a.agent, err = daemon.Start(e2etest.Program(a.t, "agent", true), a.args...); err != nil {
		a.t.Fatal(err)
	}
}

// create creates a work, and returns its name.
func (a *spoke) create(name string, spec workv1.ManifestWorkSpec) {
	a.t.Helper()
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	if _, err := a.works.WorkV1().ManifestWorks("cluster1").Create(a.t.Context(), w, metav1.CreateOptions{}); err != nil {
		a.t.Fatal(err)
	}
}

// until waits until a condition of a work has a status.
func (a *spoke) until(name, condition string, status metav1.ConditionStatus) *workv1.ManifestWork {
	a.t.Helper()
	var w *workv1.ManifestWork
	e2etest.Eventually(a.t, name+" "+condition+" "+string(status), func() (err error) {
		if w, err = a.works.WorkV1().ManifestWorks("cluster1").Get(a.t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(w.Status.Conditions, condition); c == nil || c.Status != status ||
			c.ObservedGeneration != w.Generation {
			text, _ := json.Marshal(w.Status)
			return fmt.Errorf("%s", text)
		}
		return nil
	})
	return w
}

// remove deletes works, and waits until the agent has removed them.
func (a *spoke) remove(names ...string) {
	a.t.Helper()
	client := a.works.WorkV1().ManifestWorks("cluster1")
	for _, name := range names {
		if err := client.Delete(a.t.Context(), name, metav1.DeleteOptions{}); err != nil {
			a.t.Fatal(err)
		}
	}
	for _, name := range names {
		e2etest.Eventually(a.t, name+" is gone", func() error {
			w, err := client.Get(a.t.Context(), name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			text, _ := json.Marshal(w.Status.Conditions)
			return errors.Join(err, errors.New(string(text)))
		})
	}
}

// value is the value of a ConfigMap in the namespace shop.
func (a *spoke) value(name string) string {
	a.t.Helper()
	m, err := a.core.CoreV1().ConfigMaps("shop").Get(a.t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		a.t.Fatal(err)
	}
	return m.Data["value"]
}

// TestRightsOfExecutors runs works of each kind with an executor: those of examples/agent/works, and
// one with objects of all kinds of the built-in API groups. The agent needs each of its own rights,
// and no other.
func TestRightsOfExecutors(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cluster.CreateNamespaces("shop")
	s.apply("testdata/deployer.yaml")
	a := s.newSpoke(nil, "--executor", "shop/deployer")
	names := []string{"kinds"}
	a.create("kinds", a.kinds())
	files, err := filepath.Glob("../../../examples/agent/works/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if filepath.Base(file) == "namespace.yaml" {
			continue // the namespace of the executor must exist before
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workv1.ManifestWork
		if err := yaml.UnmarshalStrict(text, &w); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(deployer), &w.Spec.Executor); err != nil {
			t.Fatal(err)
		}
		a.create(w.Name, w.Spec)
		names = append(names, w.Name)
	}
	for _, name := range names {
		w := a.until(name, workv1.WorkApplied, metav1.ConditionTrue)
		c := meta.FindStatusCondition(w.Status.Conditions, "ObjectsWatched")
		if c != nil && c.Status != metav1.ConditionTrue {
			t.Errorf("%s: %+v", name, c)
		}
	}
	a.drift()
	a.agent.Stop() // the next process lists the objects
	a.start()
	a.drift()
	a.remove(names...)
	a.checkRights("agent", "spokewire-agent")
	for _, e := range a.requests("agent") {
		if i := e.ImpersonatedUser; i != nil && i.Username != "system:serviceaccount:shop:deployer" {
			t.Errorf("%s as %s", e.RequestURI, i.Username)
		}
	}
}

// kinds returns a work with the objects of testdata/kinds.yaml and an executor.
func (a *spoke) kinds() (spec workv1.ManifestWorkSpec) {
	a.t.Helper()
	text, err := os.ReadFile("testdata/kinds.yaml")
	if err != nil {
		a.t.Fatal(err)
	}
	var objects []json.RawMessage
	if err := errors.Join(yaml.Unmarshal(text, &objects), json.Unmarshal([]byte(deployer), &spec.Executor)); err != nil {
		a.t.Fatal(err)
	}
	for _, object := range objects {
		var m workv1.Manifest
		m.Raw = object
		spec.Workload.Manifests = append(spec.Workload.Manifests, m)
	}
	return spec
}

// drift changes an object of the work kinds, and waits until the agent has undone it.
func (a *spoke) drift() {
	a.t.Helper()
	if _, err := a.core.CoreV1().ConfigMaps("shop").Patch(a.t.Context(), "c", types.MergePatchType,
		[]byte(`{"data":{"value":"theirs"}}`), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		a.t.Fatal(err)
	}
	e2etest.Eventually(a.t, "the change is undone", func() error {
		if got := a.value("c"); got != "ours" {
			return fmt.Errorf("the value is %s", got)
		}
		return nil
	})
}

// TestRightsOfRole runs works without an executor: they have the rights of the role, and no other.
func TestRightsOfRole(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cluster.CreateNamespaces("shop")
	s.apply("testdata/deployer.yaml")
	a := s.newSpoke([]string{"--role", "works"})
	spec := func(objects ...string) (spec workv1.ManifestWorkSpec) {
		for _, object := range objects {
			var m workv1.Manifest
			m.Raw = []byte(object)
			spec.Workload.Manifests = append(spec.Workload.Manifests, m)
		}
		return spec
	}
	a.create("allowed", spec(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"shop"},
		"data":{"value":"ours"}}`))
	a.until("allowed", workv1.WorkApplied, metav1.ConditionTrue)
	a.drift()
	a.checkRights("agent")
	a.create("denied", spec(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"shop"}}`))
	w := a.until("denied", workv1.WorkApplied, metav1.ConditionFalse)
	if c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied); !strings.Contains(c.Message,
		`cannot get resource "secrets"`) {
		t.Errorf("the message is %s", c.Message)
	}
	a.remove("allowed", "denied")
	if got := a.value("c"); got != "" {
		t.Errorf("the object has the value %s, want it deleted", got)
	}
	a.withoutRight(watches) // to keep Secrets from the agent
	a.agent.Stop()
	a.start()
	a.create("polled", spec(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"shop"},
		"data":{"value":"ours"}}`))
	a.until("polled", workv1.WorkApplied, metav1.ConditionTrue)
	a.until("polled", "ObjectsWatched", metav1.ConditionFalse)
	a.drift()
	a.remove("polled")
	a.withoutRight(enforcement)
	a.create("again", spec(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d","namespace":"shop"}}`))
	w = a.until("again", workv1.WorkApplied, metav1.ConditionFalse)
	if c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied); !strings.Contains(c.Message,
		"blockOwnerDeletion") {
		t.Errorf("without the right for finalizers, the message is %s", c.Message)
	}
}

// withoutRight removes a rule from the role of the agent.
func (a *spoke) withoutRight(rule string) {
	a.t.Helper()
	role, err := a.core.RbacV1().ClusterRoles().Get(a.t.Context(), "spokewire-agent", metav1.GetOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	kept := role.Rules[:0]
	for _, r := range role.Rules {
		if text, err := json.Marshal(r); err != nil || !bytes.Equal(sorted(a.t, text), sorted(a.t, []byte(rule))) {
			kept = append(kept, r)
		}
	}
	if len(kept) == len(role.Rules) {
		a.t.Fatalf("the role has no rule %s", rule)
	}
	role.Rules = kept
	if _, err := a.core.RbacV1().ClusterRoles().Update(a.t.Context(), role, metav1.UpdateOptions{}); err != nil {
		a.t.Fatal(err)
	}
}

// sorted returns JSON with sorted members.
func sorted(t *testing.T, text []byte) []byte {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
