// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// scene is a managed cluster with an agent, and a namespace for the objects of one test.
type scene struct {
	*world
	t       *testing.T
	name    string // of the cluster
	ns      string // for objects
	works   workclientset.Interface
	process *process
}

// managed starts an agent for a new cluster.
func (w *world) managed(t *testing.T, transport, cluster string, flags ...string) *scene {
	t.Helper()
	works, how := w.hub(t, transport, cluster)
	args := append([]string{"--cluster", cluster, "--hub-name", cluster + "-hub", "-v", "2"}, how...)
	s := &scene{world: w, t: t, name: cluster, ns: cluster + "-objects", works: works,
		process: newProcess(t, w.cluster.Config(), append(args, flags...)...)}
	w.namespace(t, s.ns)
	s.process.run()
	return s
}

// alive is like eventually, for a process that may be killed. It starts the process again, as a
// supervisor of agents does.
func (s *scene) alive(what string, check func() error) {
	s.t.Helper()
	eventually(s.t, what, func() error { s.process.run(); return check() })
}

// in returns the scene for one test, with its own namespace.
func (s *scene) in(t *testing.T, name string) *scene {
	t.Helper()
	own := *s
	own.t, own.ns = t, s.name+"-"+name
	s.namespace(t, own.ns)
	return &own
}

// id returns a work's name, made unique by the namespace of the test.
func (s *scene) id(name string) string { return s.ns + "-" + name }

func (s *scene) create(name string, spec workv1.ManifestWorkSpec) {
	s.t.Helper()
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: s.id(name), Namespace: s.name}, Spec: spec}
	if _, err := s.works.WorkV1().ManifestWorks(s.name).Create(s.t.Context(), w, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) update(name string, change func(*workv1.ManifestWorkSpec)) {
	s.t.Helper()
	eventually(s.t, "update of "+name, func() error {
		w, err := s.work(name)
		if err != nil {
			return err
		}
		change(&w.Spec)
		_, err = s.works.WorkV1().ManifestWorks(s.name).Update(s.t.Context(), w, metav1.UpdateOptions{})
		return err // a conflict with a newer status is retried
	})
}

func (s *scene) delete(name string) {
	s.t.Helper()
	if err := s.works.WorkV1().ManifestWorks(s.name).Delete(s.t.Context(), s.id(name),
		metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) work(name string) (*workv1.ManifestWork, error) {
	return s.works.WorkV1().ManifestWorks(s.name).Get(s.t.Context(), s.id(name), metav1.GetOptions{})
}

// until waits until the work's status is of its newest generation and fits returns nil.
func (s *scene) until(name, what string, fits func(*workv1.ManifestWork) error) *workv1.ManifestWork {
	s.t.Helper()
	var w *workv1.ManifestWork
	eventually(s.t, name+" "+what, func() (err error) {
		if w, err = s.work(name); err != nil {
			return err
		}
		c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
		if c == nil || c.ObservedGeneration != w.Generation {
			return fmt.Errorf("of generation %d is reported %+v", w.Generation, c)
		}
		if err := fits(w); err != nil {
			text, _ := json.Marshal(w.Status)
			return fmt.Errorf("%w: %s", err, text)
		}
		return nil
	})
	return w
}

// applied waits until all manifests of the newest generation are applied.
func (s *scene) applied(name string) *workv1.ManifestWork {
	s.t.Helper()
	return s.until(name, "is applied", func(w *workv1.ManifestWork) error {
		if err := has(w.Status.Conditions, workv1.WorkApplied, metav1.ConditionTrue, ""); err != nil {
			return err
		}
		if got, want := len(w.Status.ResourceStatus.Manifests), len(w.Spec.Workload.Manifests); got != want {
			return fmt.Errorf("%d manifests are reported, want %d", got, want)
		}
		for i, m := range w.Status.ResourceStatus.Manifests {
			if m.ResourceMeta.Ordinal != int32(i) || m.ResourceMeta.Resource == "" {
				return fmt.Errorf("manifest %d is reported as %+v", i, m.ResourceMeta)
			}
			if err := errors.Join(has(m.Conditions, workv1.ManifestApplied, metav1.ConditionTrue, ""),
				has(m.Conditions, workv1.ManifestAvailable, metav1.ConditionTrue, "")); err != nil {
				return fmt.Errorf("manifest %d: %w", i, err)
			}
		}
		return nil
	})
}

// gone waits until the hub no longer has the work, and until its AppliedWork is gone too.
func (s *scene) gone(name string) {
	s.t.Helper()
	eventually(s.t, name+" is gone", func() error {
		w, err := s.work(name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			text, _ := json.Marshal(w.Status.Conditions)
			err = fmt.Errorf("it is there: %s", text)
		}
		return err
	})
	eventually(s.t, "the AppliedWork of "+name+" is gone", func() error { // its objects may have been orphaned
		if record := s.record(name); record != nil {
			return fmt.Errorf("it is there: %+v", record)
		}
		return nil
	})
}

// has returns an error unless a condition is as expected. An empty status means that the condition
// must not exist. An empty text matches any reason; otherwise the text must be part of the reason
// or the message.
func has(conditions []metav1.Condition, kind string, status metav1.ConditionStatus, text string) error {
	c := meta.FindStatusCondition(conditions, kind)
	switch {
	case c == nil && status == "":
		return nil
	case c == nil:
		return fmt.Errorf("condition %s is missing", kind)
	case c.Status != status || !strings.Contains(c.Reason+" "+c.Message, text):
		return fmt.Errorf("condition %s is %+v, want %s %q", kind, *c, status, text)
	}
	return nil
}

// resource returns the client for an object. Regular plurals are enough for the kinds of these
// tests.
func (s *scene) resource(obj *unstructured.Unstructured) dynamic.ResourceInterface {
	gvr, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	if ns := obj.GetNamespace(); ns != "" {
		return s.admin.Resource(gvr).Namespace(ns)
	}
	return s.admin.Resource(gvr)
}

func (s *scene) object(manifest string) *unstructured.Unstructured {
	s.t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(manifest)); err != nil {
		s.t.Fatalf("%v: %s", err, manifest)
	}
	return obj
}

// get returns the live object of a manifest, or nil if it does not exist.
func (s *scene) get(manifest string) *unstructured.Unstructured {
	s.t.Helper()
	obj := s.object(manifest)
	live, err := s.resource(obj).Get(s.t.Context(), obj.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return live
}

// existing creates an object that no work contains.
func (s *scene) existing(manifest string) *unstructured.Unstructured {
	s.t.Helper()
	obj := s.object(manifest)
	live, err := s.resource(obj).Create(s.t.Context(), obj, metav1.CreateOptions{FieldManager: "somebody"})
	if err != nil {
		s.t.Fatal(err)
	}
	return live
}

// record returns the AppliedWork of a work, or nil if it does not exist.
func (s *scene) record(name string) *v1alpha1.AppliedWork {
	s.t.Helper()
	raw, err := s.admin.Resource(v1alpha1.GroupVersionResource).Get(s.t.Context(),
		appliedwork.NameFor(s.name+"-hub", s.name, s.id(name)), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	record := &v1alpha1.AppliedWork{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, record); err != nil {
		s.t.Fatal(err)
	}
	return record
}

// settled returns a work after its status has been stable for some polls of the agent.
func (s *scene) settled(name string) *workv1.ManifestWork {
	s.t.Helper()
	var last *workv1.ManifestWork
	since := time.Now()
	eventually(s.t, "the status of "+name+" is settled", func() error {
		w, err := s.work(name)
		if err != nil {
			return err
		}
		if last == nil || w.ResourceVersion != last.ResourceVersion {
			last, since = w, time.Now()
		}
		if time.Since(since) < 3*time.Second {
			return errors.New("it was just written")
		}
		return nil
	})
	return last
}

// owns requires that the AppliedWork of a work owns and records exactly these objects.
func (s *scene) owns(name string, manifests ...string) *v1alpha1.AppliedWork {
	s.t.Helper()
	return s.ownsBut(name, nil, manifests...)
}

// ownsBut is like owns, for a work that also records objects that it does not own, because they
// stay when it ends.
func (s *scene) ownsBut(name string, kept []string, manifests ...string) *v1alpha1.AppliedWork {
	s.t.Helper()
	record := s.record(name)
	if record == nil {
		s.t.Fatalf("there is no AppliedWork of %s", name)
	}
	recorded := map[appliedwork.Key]string{}
	for _, e := range record.Status.AppliedResources {
		recorded[appliedwork.KeyOf(e.ResourceIdentifier)] = string(e.UID)
	}
	for _, manifest := range manifests {
		live := s.get(manifest)
		if live == nil {
			s.t.Errorf("%s is not there", manifest)
			continue
		}
		key, err := appliedwork.Identify(live)
		if err != nil || !appliedwork.IsOwnedBy(live, record.UID) || recorded[key] != string(live.GetUID()) {
			s.t.Errorf("%s with UID %s, owned by %v, is recorded as %q, %v", key, live.GetUID(), live.GetOwnerReferences(),
				recorded[key], err)
		}
	}
	for _, manifest := range kept {
		live := s.get(manifest)
		key, err := appliedwork.Identify(live)
		if err != nil || len(live.GetOwnerReferences()) > 0 || recorded[key] != string(live.GetUID()) {
			s.t.Errorf("%s, owned by %v, is recorded as %q, %v", key, live.GetOwnerReferences(), recorded[key], err)
		}
	}
	if n := len(manifests) + len(kept); len(recorded) != n {
		s.t.Errorf("%d objects of %s are recorded, want %d: %v", len(recorded), name, n, recorded)
	}
	return record
}

// absent requires that objects do not exist.
func (s *scene) absent(manifests ...string) {
	s.t.Helper()
	for _, manifest := range manifests {
		if live := s.get(manifest); live != nil {
			s.t.Errorf("%s %s is there: %v", live.GetKind(), live.GetName(), live.Object["metadata"])
		}
	}
}

// value returns the value of a ConfigMap that configMap made.
func (s *scene) value(name string) string {
	s.t.Helper()
	live := s.get(s.configMap(name, ""))
	if live == nil {
		return "<absent>"
	}
	value, _, _ := unstructured.NestedString(live.Object, "data", "value")
	return value
}

func (s *scene) configMap(name, value string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q},"data":{"value":%q}}`,
		name, s.ns, value)
}

func (s *scene) clusterRole(name string) string {
	return fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`, s.ns+"-"+name)
}

// configure returns the configuration of the ConfigMap with a name; "*" matches all.
func (s *scene) configure(name string, change func(*workv1.ManifestConfigOption)) workv1.ManifestConfigOption {
	o := workv1.ManifestConfigOption{ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: s.ns,
		Name: name}}
	change(&o)
	return o
}

func spec(manifests ...string) workv1.ManifestWorkSpec {
	var s workv1.ManifestWorkSpec
	for _, m := range manifests {
		s.Workload.Manifests = append(s.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
	}
	return s
}

// manifests replaces the manifests of a work.
func manifests(texts ...string) func(*workv1.ManifestWorkSpec) {
	return func(s *workv1.ManifestWorkSpec) { s.Workload = spec(texts...).Workload }
}

// sample reads a work of examples/agent/works, with the names adapted to the namespace of this
// test.
func (s *scene) sample(file string) workv1.ManifestWorkSpec {
	s.t.Helper()
	content, err := os.ReadFile("../../../examples/agent/works/" + file)
	if err != nil {
		s.t.Fatal(err)
	}
	var w workv1.ManifestWork
	if err := yaml.UnmarshalStrict(bytes.ReplaceAll(content, []byte("namespace: shop"), []byte("namespace: "+s.ns)),
		&w); err != nil {
		s.t.Fatal(err)
	}
	return w.Spec
}

// by changes an object as another field manager than the agent.
func (s *scene) by(somebody, manifest, patch string, subresources ...string) {
	s.t.Helper()
	obj := s.object(manifest)
	if _, err := s.resource(obj).Patch(s.t.Context(), obj.GetName(), types.MergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: somebody}, subresources...); err != nil {
		s.t.Fatal(err)
	}
}

// field returns a field of an object, or an item of a list by its name.
func field(obj *unstructured.Unstructured, path ...string) any {
	if obj == nil {
		return nil
	}
	var at any = obj.Object
	for _, step := range path {
		switch value := at.(type) {
		case map[string]any:
			at = value[step]
		case []any:
			at = nil
			for _, item := range value {
				if object, ok := item.(map[string]any); ok && object["name"] == step {
					at = object
				}
			}
		default:
			return nil
		}
	}
	return at
}
