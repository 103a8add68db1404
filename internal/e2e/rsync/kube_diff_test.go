// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	kubeconnector "github.com/spokewire/sdk-go/rsync/connector/kube"
)

// leaves collects the fields of an object that are neither objects nor lists, by path. It skips the
// metadata that each write changes. It does not use the code under test. Items of lists are
// identified by their names, or by their index if they have no name.
func leaves(path string, value any, out map[string]any) {
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			if path == ".metadata" &&
				slices.Contains([]string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"}, name) {
				continue
			}
			at := path + "." + name
			if strings.ContainsAny(name, "./[") {
				at = fmt.Sprintf("%s[%q]", path, name)
			}
			leaves(at, v, out)
		}
	case []any:
		for i, v := range value {
			at := fmt.Sprintf("%s[%d]", path, i)
			if item, ok := v.(map[string]any); ok && item["name"] != nil {
				at = fmt.Sprintf("%s[name=%q]", path, item["name"])
			}
			leaves(at, v, out)
		}
	case float64: // from encoding/json; the numbers here are whole
		out[path] = int64(value)
	default:
		out[path] = value
	}
}

// changedFields returns the fields that differ between two objects, as leaves.
func changedFields(before, after *unstructured.Unstructured) map[string][2]any {
	old, now := map[string]any{}, map[string]any{}
	leaves("", before.Object, old)
	leaves("", after.Object, now)
	out := map[string][2]any{}
	for path, v := range old {
		if !reflect.DeepEqual(v, now[path]) {
			out[path] = [2]any{v, now[path]}
		}
	}
	for path, v := range now {
		if _, ok := old[path]; !ok {
			out[path] = [2]any{nil, v}
		}
	}
	return out
}

// foretold returns the fields of a change, as leaves.
func foretold(t *testing.T, change *connector.Change) map[string][2]any {
	t.Helper()
	out := map[string][2]any{}
	for _, f := range change.Fields {
		sides := [2]map[string]any{{}, {}}
		for i, text := range []string{f.Before, f.After} {
			var v any
			if text == "" {
				continue
			}
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Errorf("%s of %s is no JSON: %s", f.Path, change.Object, text)
			}
			leaves(f.Path, v, sides[i])
		}
		for path, v := range sides[0] {
			out[path] = [2]any{v, sides[1][path]}
		}
		for path, v := range sides[1] {
			out[path] = [2]any{sides[0][path], v}
		}
	}
	return out
}

// diffSite is a site with an engine, and a client that reads its objects.
type diffSite struct {
	*kubeSite

	engine *rsync.Engine
	client dynamic.Interface
}

func newDiffSite(t *testing.T) *diffSite {
	t.Helper()
	s := newKubeSite(t, nil, kubeconnector.Options{})
	clusters := map[string]kubeconnector.Cluster{"*": {Config: s.config}}
	engine := startEngine(t, newKubeConnectors(t, clusters, kubeconnector.Options{}),
		rsync.Options{PollInterval: 50 * time.Millisecond})
	return &diffSite{s, engine, dynamic.NewForConfigOrDie(s.config)}
}

func (s *diffSite) create(id string, manifests ...string) {
	s.t.Helper()
	createContext(s.t, s.engine, id, func(b *appcontext.Builder) {
		app := b.App("app").Cluster(kube1.Provider, kube1.Name)
		for _, m := range manifests {
			app.Resource(kube1.Provider, kube1.Name, []byte(strings.ReplaceAll(m, "NS", s.namespace)))
		}
	})
}

// get returns the live object, or nil if it does not exist.
func (s *diffSite) get(o appcontext.Object) *unstructured.Unstructured {
	s.t.Helper()
	versions := map[string]string{"rbac.authorization.k8s.io": "rbac.authorization.k8s.io/v1"}
	gv, err := schema.ParseGroupVersion(versions[o.Group])
	if versions[o.Group] == "" {
		gv, err = schema.GroupVersion{Group: o.Group, Version: "v1"}, nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(gv.WithKind(o.Kind))
	got, err := s.client.Resource(resource).Namespace(o.Namespace).Get(s.t.Context(), o.Name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return got
}

func (s *diffSite) done(ref rsync.EventRef, err error) {
	s.t.Helper()
	for next := &ref; next != nil; {
		status, failure := await(s.t, s.engine, *next, err)
		if failure != nil {
			s.t.Fatalf("%v: %+v", failure, status)
		}
		next = status.Element(next.Seq).Next
	}
}

const deploymentManifest = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: NS, labels: {LABELS}}, spec: {replicas: REPLICAS,
  selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: web, image: IMAGE, PORTS}, {name: side, image: side}]}}}}`

func deploymentOf(labels, replicas, image, ports string) string {
	return strings.NewReplacer("LABELS", labels, "REPLICAS", replicas, "IMAGE", image, "PORTS",
		ports).Replace(deploymentManifest)
}

// TestKubeDiff: the result of Diff equals, field by field, the result of a dry run and the effect
// of the event that follows. This includes defaults, changes of others, and removed fields. Diff
// changes nothing.
func TestKubeDiff(t *testing.T) {
	t.Parallel()
	s := newDiffSite(t)
	job := func(image, meta string) string {
		return "{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: NS, " + meta + "}, spec: {" +
			strings.NewReplacer("POLICY", "Never", "IMAGE", image).Replace(podTemplate) + "}}"
	}
	service := "{apiVersion: v1, kind: Service, metadata: {name: s, namespace: NS}, spec: {ports: [{name: web, port: " +
		"%d%s}]}}"
	nodePort := strings.Replace(fmt.Sprintf(service, 81, fmt.Sprint(", nodePort: ", s.nodePort())), "spec: {",
		"spec: {type: NodePort, ", 1)
	s.create("v1", deploymentOf("x: one, gone: z", "1", "img:1", "ports: [{containerPort: 80}]"), manifestOf("same", "1"),
		manifestOf("gone", "1"),
		manifestOf("drifted", "1"), fmt.Sprintf(service, 80, ""), job("img:1", ""),
		"{apiVersion: v1, kind: Secret, metadata: {name: x, namespace: NS}, stringData: {password: s3cr3t-1}}")
	s.create("v2", deploymentOf("x: two", "3", "img:2", "env: [{name: A, value: b}]"), manifestOf("same", "1"),
		manifestOf("new", "1"),
		manifestOf("drifted", "2"), nodePort, job("img:2", force),
		"{apiVersion: v1, kind: Secret, metadata: {name: x, namespace: NS}, stringData: {password: s3cr3t-2}}")
	s.done(s.engine.Instantiate(t.Context(), "v1"))
	drift := []byte(`{"data": {"others": "x"}}`)
	if _, err := s.kubeSite.client.CoreV1().ConfigMaps(s.namespace).Patch(t.Context(), "drifted", types.MergePatchType,
		drift, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	diff, err := s.engine.Diff(t.Context(), rsync.Update, "v2", "v1")
	if err != nil || diff.Err() != nil {
		t.Fatalf("%v, %v", err, diff.Err())
	}
	t.Log(diff)
	if strings.Contains(fmt.Sprintf("%+v %s", diff.Clusters, diff), "s3cr3t") {
		t.Error("the difference has values of a Secret")
	}
	before := map[appcontext.Object]*unstructured.Unstructured{}
	kinds := map[string]connector.ChangeKind{}
	for i := range diff.Clusters {
		for _, c := range diff.Clusters[i].Changes {
			before[c.Object] = s.get(c.Object)
			kinds[c.Name] = c.Kind
		}
	}
	if d := cmp.Diff(map[string]connector.ChangeKind{
		"d": connector.ChangeKindUpdate, "gone": connector.ChangeKindDelete, "new": connector.ChangeKindCreate,
		"drifted": connector.ChangeKindUpdate, "s": connector.ChangeKindUpdate, "j": connector.ChangeKindReplace,
		"x": connector.ChangeKindUpdate,
	}, kinds); d != "" {
		t.Error(d)
	}
	s.done(s.engine.Update(t.Context(), "v1", "v2"))
	for i := range diff.Clusters {
		for _, c := range diff.Clusters[i].Changes {
			s.compare(&c, before[c.Object], s.get(c.Object))
		}
	}
	again, err := s.engine.Diff(t.Context(), rsync.Instantiate, "v2", "")
	if err != nil || again.Count(connector.ChangeKindNone) != 7 || again.Count(connector.ChangeKindUpdate) != 0 {
		t.Errorf("after the update: %s, %v", again, err)
	}
}

// compare checks a change against an object before and after the event.
func (s *diffSite) compare(c *connector.Change, before, after *unstructured.Unstructured) {
	s.t.Helper()
	switch c.Kind {
	case connector.ChangeKindCreate, connector.ChangeKindDelete:
		if (before == nil) != (c.Kind == connector.ChangeKindCreate) ||
			(after == nil) != (c.Kind == connector.ChangeKindDelete) {
			s.t.Errorf("%s %s: it existed before: %t, and after: %t", c.Kind, c.Object, before != nil, after != nil)
		}
		return
	case connector.ChangeKindReplace:
		if before.GetUID() == after.GetUID() {
			s.t.Errorf("%s was not replaced", c.Object)
		}
		did := changedFields(before, after)
		for path, values := range foretold(s.t, c) { // the API server sets more fields of a new object
			if !reflect.DeepEqual(did[path], values) {
				s.t.Errorf("%s: %s: Diff has %v, the event did %v", c.Object, path, values, did[path])
			}
		}
		return
	}
	want := changedFields(before, after)
	if c.Object.Kind == "Secret" {
		if len(c.Fields) != 1 ||
			c.Fields[0] != (connector.FieldChange{Path: ".data.password", Before: "(redacted)", After: "(redacted)"}) ||
			len(want) != 1 {
			s.t.Errorf("%+v, want %v", c, want)
		}
		return
	}
	got := foretold(s.t, c)
	if !reflect.DeepEqual(got, want) {
		s.t.Errorf("%s\nDiff has  %v\nthe event %v", c.Object, got, want)
	}
}

// TestKubeDiffRefused: objects that the cluster would refuse, and objects that depend on others of
// the same event, are reported one by one.
func TestKubeDiffRefused(t *testing.T) {
	t.Parallel()
	s := newDiffSite(t)
	group := s.namespace + ".example.com"
	frozenMap := immutables["ConfigMap"].manifest
	maps := s.kubeSite.client.CoreV1().ConfigMaps(s.namespace)
	theirs := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"theirs"},"data":{"key":"theirs"}}`)
	if _, err := maps.Patch(t.Context(), "theirs", types.ApplyPatchType, theirs,
		metav1.PatchOptions{FieldManager: "people"}); err != nil {
		t.Fatal(err)
	}
	s.apply(strings.NewReplacer("VALUE", "one", "META", "").Replace(frozenMap))
	s.create("v1",
		strings.NewReplacer("VALUE", "two", "META", "").Replace(frozenMap),
		manifestOf("theirs", "s3cr3t"),
		"{apiVersion: v1, kind: Secret, metadata: {name: invalid, namespace: NS}, stringData: {\"no key!\": s3cr3t}}",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: broken, namespace: NS}, dat: {a: s3cr3t}}",
		"{apiVersion: v1, kind: Namespace, metadata: {name: NS-inner}}",
		strings.ReplaceAll(manifestOf("inner", "1"), "NS", "NS-inner"),
		crd(group), thing(group, "one", 1), "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}")
	diff, err := s.engine.Diff(t.Context(), rsync.Instantiate, "v1", "")
	if err != nil || diff.Err() != nil {
		t.Fatalf("%v, %v", err, diff.Err())
	}
	text := diff.String()
	t.Log(text)
	for _, want := range []string{
		"4 to create, 0 to change, 0 to replace, 0 to delete, 0 unchanged, 5 refused",
		"! ConfigMap NS/a: immutable fields (data): to have the object deleted and created again, set the annotation " +
			"kustomize.toolkit.fluxcd.io/force",
		`! ConfigMap NS/theirs: try to apply: other managers own fields of it, set Options.Force to take them: .data.key (conflict with "people"`,
		"! Secret NS/invalid: try to apply: the object is invalid",
		"! ConfigMap NS/broken: try to apply: the manifest does not fit its kind",
		"+ Namespace NS-inner\n", "+ ConfigMap NS-inner/inner: not checked: try to apply: its namespace does not exist",
		"+ apiextensions.k8s.io/CustomResourceDefinition things.NS.example.com\n",
		"+ NS.example.com/Thing NS/one: not checked: try to apply: the cluster does not serve this kind",
		"! Namespace kube-system: the namespace is protected",
	} {
		if want = strings.ReplaceAll(want, "NS", s.namespace); !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if strings.Contains(fmt.Sprintf("%+v", diff.Clusters), "s3cr3t") {
		t.Error("the difference has content of a manifest")
	}
	if s.get(appcontext.Object{Kind: "ConfigMap", Namespace: s.namespace + "-inner", Name: "inner"}) != nil ||
		s.state(manifestOf("broken", "1")).Exists {
		t.Error("Diff has created an object")
	}
}

// TestKubeDiffUnreachable: a cluster that does not answer is reported, and the other clusters still
// have their diff.
func TestKubeDiffUnreachable(t *testing.T) {
	t.Parallel()
	s := newKubeSite(t, nil, kubeconnector.Options{})
	config, proxy := proxied(t, s.config)
	proxy.Block()
	clusters := map[string]kubeconnector.Cluster{"edge+c1": {Config: s.config}, "edge+c2": {Config: config}}
	engine := startEngine(t, newKubeConnectors(t, clusters, kubeconnector.Options{Timeout: 2 * time.Second}),
		rsync.Options{})
	createContext(t, engine, "v1", func(b *appcontext.Builder) {
		for _, cluster := range []string{"c1", "c2"} {
			b.App("app").Cluster("edge", cluster).Resource("edge", cluster,
				[]byte(strings.ReplaceAll(manifestOf("a", "1"), "NS", s.namespace)))
		}
	})
	diff, err := engine.Diff(t.Context(), rsync.Instantiate, "v1", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(diff)
	if diff.Count(connector.ChangeKindCreate) != 1 || len(diff.Clusters) != 2 ||
		diff.Clusters[1].Reason != rsync.ReasonUnreachable {
		t.Errorf("%+v", diff)
	}
}
