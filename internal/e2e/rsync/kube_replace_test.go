// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	kubeconnector "github.com/spokewire/sdk-go/rsync/connector/kube"
)

// frozen is an object with an immutable field. Its manifest has the placeholders META for more
// metadata, and VALUE for the field.
type frozen struct {
	resource      schema.GroupVersionResource
	manifest      string
	before, after string
	path          []string // of the field with the value, or of a list with the value at index 0
	named         string   // the field in the error
}

const (
	podTemplate = "template: {metadata: {labels: {a: b}}, spec: {restartPolicy: POLICY, containers: [{name: a, image: " +
		"IMAGE}]}}"
	force = `annotations: {kustomize.toolkit.fluxcd.io/force: enabled}`
)

var immutables = map[string]frozen{
	"Job": {
		resource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"},
		manifest: "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: NS, META}, spec: {" +
			strings.NewReplacer("POLICY", "Never", "IMAGE", "VALUE").Replace(podTemplate) + "}}",
		before: "img:1", after: "img:2", path: []string{"spec", "template", "spec", "containers"}, named: "spec.template",
	},
	"StatefulSet": {
		resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"},
		manifest: "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, namespace: NS, META}, spec: {serviceName: " +
			"VALUE, selector: {matchLabels: {a: b}}, " +
			strings.NewReplacer("POLICY", "Always", "IMAGE", "img").Replace(podTemplate) + "}}",
		before: "one", after: "two", path: []string{"spec", "serviceName"}, named: "spec",
	},
	"ConfigMap": {
		resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		manifest: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NS, META}, immutable: true, data: " +
			"{key: VALUE}}",
		before: "one", after: "two", path: []string{"data", "key"}, named: "data",
	},
	"Service": {
		resource: schema.GroupVersionResource{Version: "v1", Resource: "services"},
		manifest: "{apiVersion: v1, kind: Service, metadata: {name: a, namespace: NS, META}, spec: {type: NodePort, " +
			"clusterIP: VALUE, ports: [{port: 80, nodePort: NODEPORT}]}}",
		path: []string{"spec", "clusterIP"}, named: "spec.clusterIPs[0]",
	},
	"RoleBinding": {
		resource: schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		manifest: "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a, namespace: NS, META}, " +
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: VALUE}, subjects: []}",
		before: "view", after: "edit", path: []string{"roleRef", "name"}, named: "roleRef",
	},
}

// frozenSite is a site with a frozen object.
type frozenSite struct {
	*kubeSite
	frozen

	client dynamic.ResourceInterface
}

func newFrozenSite(t *testing.T, name string, config func(*rest.Config) *rest.Config) *frozenSite {
	t.Helper()
	s := newKubeSite(t, nil, kubeconnector.Options{})
	if config != nil {
		s.connector = openKube(t, config(rest.CopyConfig(s.config)), kubeconnector.Options{})
	}
	f := immutables[name]
	if name == "Service" {
		f.before, f.after = freeService(t, s)
		f.manifest = strings.ReplaceAll(f.manifest, "NODEPORT", fmt.Sprint(s.nodePort()))
	}
	return &frozenSite{s, f, dynamic.NewForConfigOrDie(s.config).Resource(f.resource).Namespace(s.namespace)}
}

// freeService returns two free IP addresses of the service range.
func freeService(t *testing.T, s *kubeSite) (one, two string) {
	t.Helper()
	var ips []string
	for _, name := range []string{"one", "two"} {
		manifest := fmt.Sprintf(
			"{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: NS}, spec: {ports: [{port: 80}]}}", name)
		s.apply(manifest)
		have, err := s.client.CoreV1().Services(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ips = append(ips, have.Spec.ClusterIP)
		if err := s.connector.Delete(t.Context(), s.batch(manifest)); err != nil {
			t.Fatal(err)
		}
	}
	return ips[0], ips[1]
}

// nodePort returns a port of the node port range. Each call returns a different port.
func (s *kubeSite) nodePort() int32 { return 30500 + nodePorts.Add(1) }

var nodePorts atomic.Int32

// with returns the manifest with a value and additional metadata.
func (s *frozenSite) with(value, meta string) string {
	return strings.NewReplacer("VALUE", value, "META", meta).Replace(s.manifest)
}

func (s *frozenSite) live() *unstructured.Unstructured {
	s.t.Helper()
	got, err := s.client.Get(s.t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

// value returns the value of the object, which must exist.
func (s *frozenSite) value() string {
	s.t.Helper()
	field, _, err := unstructured.NestedFieldNoCopy(s.live().Object, s.path...)
	if err != nil {
		s.t.Fatal(err)
	}
	if list, ok := field.([]any); ok {
		field = list[0].(map[string]any)["image"]
	}
	return fmt.Sprint(field)
}

func (s *frozenSite) tryApply(value, meta string) error {
	return s.connector.Apply(s.t.Context(), s.batch(s.with(value, meta)))
}

// TestKubeReplace: a change of an immutable field is an error that names the field and the
// annotation. Only with the annotation is the object created again.
func TestKubeReplace(t *testing.T) {
	t.Parallel()
	for name := range immutables {
		t.Run(name, func(t *testing.T) {
			s := newFrozenSite(t, name, nil)
			s.apply(s.with(s.before, ""))
			first := s.live().GetUID()
			err := s.tryApply(s.after, "")
			s.refused(err, connector.ErrTerminal, name, "immutable fields ("+s.named,
				"annotation kustomize.toolkit.fluxcd.io/force: enabled")
			t.Log(err)
			s.apply(s.with(s.before, force))
			if got := s.live().GetUID(); got != first {
				t.Error("an object was replaced without need")
			}
			s.apply(s.with(s.after, force))
			if got := s.live().GetUID(); got == first || s.value() != s.after {
				t.Errorf("the value is %q, want %q; the object was replaced: %t", s.value(), s.after, got != first)
			}
		})
	}
}

// TestKubeReplaceSpares: objects that also belong to others, that cannot be created again, or that
// contain other objects, are not deleted.
func TestKubeReplaceSpares(t *testing.T) {
	t.Parallel()
	apply := func(s *frozenSite, manager, patch string) {
		options := metav1.PatchOptions{FieldManager: manager}
		if _, err := s.client.Patch(s.t.Context(), "a", types.ApplyPatchType, []byte(patch), options); err != nil {
			s.t.Fatal(err)
		}
	}
	header := `"apiVersion": "v1", "kind": "ConfigMap", `
	for reason, tt := range map[string]struct {
		prepare func(s *frozenSite)
		change  func(s *frozenSite) connector.Batch
		parts   []string
	}{
		"made by others": {func(s *frozenSite) {
			apply(s, "people",
				`{`+header+`"metadata": {"name": "a"}, "immutable": true}`)
		}, nil,
			[]string{"immutable fields (data)", `field manager "rsync" has not applied it before`}},
		"applied by others too": {func(s *frozenSite) {
			s.apply(s.with(s.before, ""))
			apply(s, "people", `{`+header+`"metadata": {"name": "a", "labels": {"theirs": "x"}}}`)
		}, nil, []string{"immutable fields (data)", `others apply it too: "people"`}},
		"with an owner": {func(s *frozenSite) {
			s.apply(s.with(s.before, ""))
			patch := `{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}]}}`
			if _, err := s.client.Patch(s.t.Context(), "a", types.MergePatchType, []byte(patch),
				metav1.PatchOptions{}); err != nil {
				s.t.Fatal(err)
			}
		}, nil, []string{"its owner is Node n"}},
		"held by another context": {func(s *frozenSite) { s.apply(s.with(s.before, "")) },
			func(s *frozenSite) connector.Batch {
				batch := s.batch(s.with(s.after, force))
				batch.Holder = func(_ context.Context, o appcontext.Object) (string, error) {
					return "app b of app context c with " + o.Name, nil
				}
				return batch
			}, []string{"app b of app context c with a holds it too"}},
		"invalid by itself": {func(s *frozenSite) { s.apply(s.with(s.before, "")) }, func(s *frozenSite) connector.Batch {
			return s.batch(strings.Replace(s.with(s.after, force), ", data: {", `, data: {"no key!": s3cr3t, `, 1))
		}, []string{"data", "could not be created again", "the object is invalid"}},
	} {
		t.Run(reason, func(t *testing.T) {
			s := newFrozenSite(t, "ConfigMap", nil)
			tt.prepare(s)
			before := s.live().GetUID()
			batch := s.batch(s.with(s.after, force))
			if tt.change != nil {
				batch = tt.change(s)
			}
			err := s.connector.Apply(t.Context(), batch)
			s.refused(err, connector.ErrTerminal, "ConfigMap", tt.parts...)
			t.Log(err)
			if after := s.live(); after.GetUID() != before || after.GetDeletionTimestamp() != nil {
				t.Error("the object was deleted")
			}
		})
	}
}

// TestKubeReplaceWaitsForFinalizers: Apply returns a retryable error until the old object is gone,
// whatever is applied meanwhile, and then creates the object. Fields that are applied to a
// terminating object would be deleted with it.
func TestKubeReplaceWaitsForFinalizers(t *testing.T) {
	t.Parallel()
	s := newFrozenSite(t, "Job", nil)
	s.apply(s.with(s.before, ""))
	finalizers := func(list string) {
		t.Helper()
		patch := `{"metadata": {"finalizers": ` + list + `}}`
		if _, err := s.client.Patch(t.Context(), "a", types.MergePatchType, []byte(patch),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	finalizers(`["example.com/slow"]`)
	first := s.live().GetUID()
	for _, value := range []string{s.after, s.after, s.before} {
		for _, meta := range []string{force, ""} {
			s.refused(s.tryApply(value, meta), connector.ErrRetryable, "Job", "is being deleted")
		}
	}
	if got := s.live(); got.GetUID() != first || got.GetDeletionTimestamp() == nil {
		t.Fatalf("the object with a finalizer: %v", got)
	}
	finalizers(`[]`)
	eventually(t, func() string {
		if err := s.tryApply(s.after, force); err != nil {
			return err.Error()
		}
		return ""
	})
	if got := s.live(); got.GetUID() == first || s.value() != s.after {
		t.Errorf("the value is %q, want %q", s.value(), s.after)
	}
}

// cutter makes requests of a method fail, before or after they are sent.
type cutter struct {
	next   http.RoundTripper
	method atomic.Value
	sent   bool
}

func (c *cutter) RoundTrip(req *http.Request) (*http.Response, error) {
	cut := c.method.Load() == req.Method && !strings.Contains(req.URL.RawQuery, "dryRun")
	if cut && !c.sent {
		return nil, fmt.Errorf("cut")
	}
	resp, err := c.next.RoundTrip(req)
	if cut && err == nil {
		_ = resp.Body.Close()
		c.method.Store("")
		return nil, context.Canceled
	}
	return resp, err
}

// TestKubeReplaceSurvivesCrash: if a call ends after the deletion and before the object is created
// again, the next call finishes the replacement. If a call ends before the deletion, the object
// stays.
func TestKubeReplaceSurvivesCrash(t *testing.T) {
	t.Parallel()
	for _, sent := range []bool{false, true} {
		t.Run(fmt.Sprintf("deleted %t", sent), func(t *testing.T) {
			cut := &cutter{sent: sent}
			s := newFrozenSite(t, "Job", func(config *rest.Config) *rest.Config {
				config.Wrap(func(next http.RoundTripper) http.RoundTripper { cut.next = next; return cut })
				return config
			})
			s.apply(s.with(s.before, ""))
			first := s.live().GetUID()
			cut.method.Store(http.MethodDelete)
			if err := s.tryApply(s.after, force); err == nil {
				t.Fatal("the call succeeded without a deletion")
			}
			if got := s.state(s.with(s.after, force)).Exists; got != !sent {
				t.Errorf("the object exists: %t", got)
			}
			cut.method.Store("")
			s.apply(s.with(s.after, force)) // the call of the next process
			if got := s.live().GetUID(); got == first || s.value() != s.after {
				t.Errorf("the value is %q, want %q", s.value(), s.after)
			}
			s.apply(s.with(s.after, force))
		})
	}
}

// TestEngineReplaces: an update replaces an object that only the old context holds, and fails while
// a third context holds it.
func TestEngineReplaces(t *testing.T) {
	t.Parallel()
	s := newFrozenSite(t, "Job", nil)
	config := map[string]kubeconnector.Cluster{"*": {Config: s.config}}
	engine := startEngine(t, newKubeConnectors(t, config, kubeconnector.Options{}),
		rsync.Options{PollInterval: 50 * time.Millisecond})
	create := func(id, value string) {
		createContext(t, engine, id, func(b *appcontext.Builder) {
			manifest := strings.ReplaceAll(s.with(value, force), "NS", s.namespace)
			b.App("app").Cluster(kube1.Provider, kube1.Name).Resource(kube1.Provider, kube1.Name, []byte(manifest))
		})
	}
	create("v1", s.before)
	create("v2", s.after)
	create("v3", "img:3")
	create("guest", s.after)
	done := func(ref rsync.EventRef, err error) {
		t.Helper()
		if status, err := await(t, engine, ref, err); err != nil {
			t.Fatalf("%v: %+v", err, status)
		}
	}
	done(engine.Instantiate(t.Context(), "v1"))
	first := s.live().GetUID()
	done(engine.Update(t.Context(), "v1", "v2"))
	second := s.live().GetUID()
	if second == first || s.value() != s.after {
		t.Errorf("the value is %q, want %q", s.value(), s.after)
	}
	done(engine.Instantiate(t.Context(), "guest"))
	ref, err := engine.Update(t.Context(), "v2", "v3")
	if _, err = await(t, engine, ref, err); err == nil || s.live().GetUID() != second {
		t.Errorf("the update to v3: %v; the object of another context was replaced: %t", err, s.live().GetUID() != second)
	}
	status, err := engine.Status(t.Context(), "v3")
	if err != nil || !strings.Contains(fmt.Sprint(status.Clusters), "app of app context guest holds it too") {
		t.Errorf("%+v, %v", status, err)
	}
	done(engine.Terminate(t.Context(), "guest"))
	done(engine.Update(t.Context(), "v2", "v3"))
	if s.live().GetUID() == second || s.value() != "img:3" {
		t.Errorf("the value is %q, want img:3", s.value())
	}
}
