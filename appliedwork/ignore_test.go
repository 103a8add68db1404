// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
)

const (
	ignoring = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"a/b":"1","c~d":"1"}},"spec":{"replicas":2,
		"template":{"spec":{"containers":[{"name":"log","image":"log:1","ports":[{"containerPort":80}]},{"name":"web","image":"web:1"}]}},"args":["x","v","z"]}}`
	// ignoringLive has one more container, and every value differs from the manifest.
	ignoringLive = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"a/b":"live","c~d":"live"},
		"managedFields":[{"manager":"ours","operation":"Apply","fieldsType":"FieldsV1","fieldsV1":%s}]},"spec":{"replicas":7,
		"template":{"spec":{"containers":[{"name":"more","image":"more"},{"name":"log","image":"log:live","ports":[{"containerPort":80,"protocol":"TCP"}]},
			{"name":"web","image":"web:live","tty":true}]}},"args":["x","q"]}}`
	ignoringOurs = `{"f:metadata":{"f:labels":{"f:a/b":{}}},"f:spec":{"f:replicas":{},"f:args":{},"f:template":{"f:spec":{"f:containers":{
		"k:{\"name\":\"web\"}":{".":{},"f:name":{},"f:image":{}}}}}}}`
	ignoringPorts = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"log\"}":{"f:ports":{
		"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}}}}}`
)

func isOurs(manager string) bool { return manager == "ours" }

// TestIgnoreFields: ignored fields of others are not sent, and our ignored fields are sent with
// their live values.
func TestIgnoreFields(t *testing.T) {
	const log, web = `{"name":"log","image":"log:1","ports":[{"containerPort":80}]}`, `{"name":"web","image":"web:1"}`
	containers := func(items ...string) string {
		return `{"spec":{"template":{"spec":{"containers":[` + strings.Join(items, ",") + `]}}}}`
	}
	image := "/spec/template/spec/containers/1/image"
	for _, tt := range []struct {
		name    string
		options appliedwork.ObjectOptions
		fields  string // our managed fields
		want    string // a JSON merge patch of the manifest
	}{
		{"a field of others", appliedwork.ObjectOptions{IgnoreFields: []string{"/spec/replicas"}}, `{}`, `{"spec":{"replicas":null}}`},
		{"a field of ours", appliedwork.ObjectOptions{IgnoreFields: []string{"/spec/replicas"}}, ignoringOurs, `{"spec":{"replicas":7}}`},
		{"escapes", appliedwork.ObjectOptions{IgnoreFields: []string{"/metadata/labels/a~1b", "/metadata/labels/c~0d"}}, ignoringOurs, `{"metadata":{"labels":{"a/b":"live","c~d":null}}}`},
		{"an item of ours", appliedwork.ObjectOptions{IgnoreFields: []string{image}}, ignoringOurs, containers(log, `{"name":"web","image":"web:live"}`)},
		{"an item of others", appliedwork.ObjectOptions{IgnoreFields: []string{"/spec/template/spec/containers/0/image"}}, ignoringOurs, containers(`{"name":"log","ports":[{"containerPort":80}]}`, web)},
		{"only our part of an item", appliedwork.ObjectOptions{IgnoreFields: []string{"/spec/template/spec/containers/1"}}, ignoringOurs, containers(log, `{"name":"web","image":"web:live"}`)},
		{"only our part of a list", appliedwork.ObjectOptions{IgnoreFields: []string{"/spec/template/spec/containers"}}, ignoringOurs, containers(`{"name":"web","image":"web:live"}`)},
		{"a port with a default", appliedwork.ObjectOptions{IgnoreFields: []string{"/spec/template/spec/containers/0/ports/0"}}, ignoringPorts,
			containers(log, web)},
		{"an item of a set", appliedwork.ObjectOptions{IgnoreFields: []string{"/spec/args/0", "/spec/args/1"}}, `{"f:spec":{"f:args":{"v:\"x\"":{},"v:\"q\"":{}}}}`, `{"spec":{"args":["x","z"]}}`},
		{"several items", appliedwork.ObjectOptions{IgnoreFields: []string{"/spec/args/0", "/spec/args/1"}}, `{}`, `{"spec":{"args":["z"]}}`},
		{"an atomic list of ours", appliedwork.ObjectOptions{IgnoreFields: []string{"/spec/args"}}, ignoringOurs, `{"spec":{"args":["x","q"]}}`},
		{"all fields of ours", appliedwork.ObjectOptions{IgnoreFields: []string{"/spec"}}, `{"f:spec":{".":{},"f:replicas":{}}}`, `{"spec":{"replicas":7,"template":null,"args":null}}`},
		{"a field above another", appliedwork.ObjectOptions{IgnoreFields: []string{"/spec", "/spec/replicas"}}, `{}`, `{"spec":null}`},
		{"nothing there", appliedwork.ObjectOptions{IgnoreFields: []string{"/spec/nothing/at/all", "/spec/nothing", "/spec/args/9", "/spec/replicas/0"}}, ignoringOurs, `{}`},
		{"changed by nobody", appliedwork.ObjectOptions{IgnoreChangedFields: []string{"/spec/replicas", image}}, ignoringOurs, `{}`},
		{"changed by others", appliedwork.ObjectOptions{IgnoreChangedFields: []string{"/spec/replicas"}}, `{"f:spec":{"f:args":{}}}`, `{"spec":{"replicas":null}}`},
		{"changed by nobody, and not there", appliedwork.ObjectOptions{IgnoreChangedFields: []string{"/spec/template/spec/containers/0/ports/0/containerPort"}}, ignoringPorts, `{}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want, err := jsonpatch.MergePatch([]byte(ignoring), []byte(tt.want))
			if err != nil {
				t.Fatal(err)
			}
			on := object(ignoringLive, tt.fields)
			got, err := appliedwork.Leave(object(ignoring), on, tt.options, isOurs)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object("%s", want).Object, got.Object); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(object(ignoringLive, tt.fields).Object, on.Object); diff != "" {
				t.Errorf("the object was changed: %s", diff)
			}
		})
	}
}

// TestIgnoreFieldsGoneFromManifest: an ignored field stays on the cluster after the manifest has
// lost it.
func TestIgnoreFieldsGoneFromManifest(t *testing.T) {
	const manifest = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"template":{"spec":{"containers":[{"name":"web"}]}}}}`
	pointers := []string{"/spec/replicas", "/metadata/labels", "/metadata/labels/none", "/spec/template/spec/containers/0/image", "/spec/more/replicas"}
	for _, tt := range []struct {
		name, fields, want string
		options            appliedwork.ObjectOptions
	}{
		{"ours", ignoringOurs, `{"metadata":{"labels":{"a/b":"live"}},"spec":{"replicas":7,"template":{"spec":{"containers":[{"name":"web","image":"web:live"}]}}}}`, appliedwork.ObjectOptions{IgnoreFields: pointers}},
		{"not ours", `{"f:spec":{"f:args":{}}}`, `{}`, appliedwork.ObjectOptions{IgnoreFields: pointers}},
		{"changed by nobody", ignoringOurs, `{}`, appliedwork.ObjectOptions{IgnoreChangedFields: pointers}},
	} {
		want, err := jsonpatch.MergePatch([]byte(manifest), []byte(tt.want))
		if err != nil {
			t.Fatal(err)
		}
		got, err := appliedwork.Leave(object(manifest), object(ignoringLive, tt.fields), tt.options, isOurs)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(object("%s", want).Object, got.Object); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// TestIgnoreFieldsOfLongLists: the time grows with the length of the list, not with its square. A
// busy machine may slow down some attempts, but not all.
func TestIgnoreFieldsOfLongLists(t *testing.T) {
	const few, many, attempts = 1_000, 10_000, 5
	for _, whole := range []bool{true, false} {
		var times []string
		for range attempts {
			short, long := ignoreItems(t, few, whole), ignoreItems(t, many, whole)
			if long <= 40*short { // a square would take 100 times as long
				times = nil
				break
			}
			times = append(times, fmt.Sprintf("%s and %s", short, long))
		}
		if times != nil {
			t.Errorf("whole list %t: the times for %d and %d items are %s", whole, few, many, strings.Join(times, ", "))
		}
	}
}

// ignoreItems ignores a whole list, or a field of each of its items. It returns the shortest of
// three times.
func ignoreItems(t *testing.T, count int, whole bool) time.Duration {
	t.Helper()
	var items, keys, pointers []string
	for i := range count {
		items = append(items, fmt.Sprintf(`{"name":"n%d","value":"v"}`, i))
		keys = append(keys, fmt.Sprintf(`"k:{\"name\":\"n%d\"}":{".":{},"f:name":{}}`, i))
		pointers = append(pointers, fmt.Sprintf("/l/%d/value", i))
	}
	if whole {
		pointers = []string{"/l"}
	}
	obj := object(`{"apiVersion":"v1","kind":"X","metadata":{"name":"x","managedFields":[{"manager":"ours","fieldsType":"FieldsV1","fieldsV1":{"f:l":{%s}}}]},"l":[%s]}`,
		strings.Join(keys, ","), strings.Join(items, ","))
	shortest := time.Hour
	for range 3 {
		began := time.Now()
		got, err := appliedwork.Leave(obj, obj, appliedwork.ObjectOptions{IgnoreFields: pointers}, isOurs)
		shortest = min(shortest, time.Since(began))
		if err != nil {
			t.Fatal(err)
		}
		if list := got.Object["l"].([]any); len(list) != count || len(list[0].(map[string]any)) != 1 {
			t.Errorf("%d items, the first is %v", len(list), list[0])
		}
	}
	return shortest
}

// TestIgnoreFieldsRefused: a bad pointer is an error before anything is written.
func TestIgnoreFieldsRefused(t *testing.T) {
	for pointer, want := range map[string]string{
		"": "CreateOnly", "data": "begins with /", "/a~2": "~0", "/a~": "~0", "/nothing/a~2": "~0", "/kind": "kind cannot be left out",
		"/apiVersion": "apiVersion cannot be left out", "/metadata": "name and namespace", "/metadata/name": "name and namespace",
		"/metadata/namespace": "name and namespace", "/data/list/-": "numbered from 0", "/data/list/01": "numbered from 0",
	} {
		s := newScene(t)
		obj := manifest("a", "1")
		obj.Object["data"].(map[string]any)["list"] = []any{"x"}
		key, err := appliedwork.Identify(obj)
		if err != nil {
			t.Fatal(err)
		}
		before := len(s.writes)
		for _, options := range []appliedwork.ObjectOptions{{IgnoreFields: []string{pointer}}, {IgnoreChangedFields: []string{pointer}}} {
			_, err = s.apply(appliedwork.ApplyOptions{ByKey: map[appliedwork.Key]appliedwork.ObjectOptions{key: options}}, obj)
			if !errors.Is(err, appliedwork.ErrInvalidInput) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), key.String()) {
				t.Errorf("%q: %v, want %q", pointer, err, want)
			}
		}
		if written := slices.DeleteFunc(s.writes[before:], func(w string) bool { return strings.Contains(w, "/appliedworks/") }); len(written) > 0 || s.exists(shop+"a") {
			t.Errorf("%q: %v", pointer, written)
		}
	}
}

// TestIgnoreFieldsWrites: a second apply causes no write, and a change of an ignored field by
// others causes no write. New options do.
func TestIgnoreFieldsWrites(t *testing.T) {
	s := newScene(t)
	s.kinds["v1"].APIResources = append(s.kinds["v1"].APIResources, metav1.APIResource{Name: "secrets", Kind: "Secret", Namespaced: true})
	a := object(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"a"},"data":{"kept":"MQ=="},"stringData":{"value":"1","more":"1"}}`)
	path := spaces + "shop/secrets/a"
	key, err := appliedwork.Identify(a)
	if err != nil {
		t.Fatal(err)
	}
	options := func(o appliedwork.ObjectOptions) appliedwork.ApplyOptions {
		return appliedwork.ApplyOptions{ByKey: map[appliedwork.Key]appliedwork.ObjectOptions{key: o}}
	}
	apply := func(o appliedwork.ObjectOptions, want string) {
		t.Helper()
		changes, err := s.apply(options(o), a)
		if err != nil || changes.String() != want {
			t.Errorf("%v, %v, want %s", changes, err, want)
		}
	}
	// change makes another manager own data.value.
	change := func() {
		s.write(path, func(obj *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(obj.Object, "dGhlaXJz", "data", "value")
			entries := obj.GetManagedFields()
			text := strings.NewReplacer(`"f:value":{},`, ``, `,"f:value":{}`, ``).Replace(entries[0].FieldsV1.GetRawString())
			entries[0].FieldsV1 = metav1.NewFieldsV1(text)
			obj.SetManagedFields(append(entries, metav1.ManagedFieldsEntry{
				Manager: "somebody", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:value":{}}}`),
			}))
		})
	}
	ignore := appliedwork.ObjectOptions{IgnoreFields: []string{"/stringData/value"}}
	apply(ignore, "1 created")
	apply(ignore, "1 unchanged")
	change()
	apply(ignore, "1 unchanged")
	a.Object["stringData"].(map[string]any)["value"] = "2" // ignored
	apply(ignore, "1 unchanged")
	apply(appliedwork.ObjectOptions{IgnoreFields: []string{"/stringData/value", "/stringData/value"}}, "1 unchanged")
	whole := appliedwork.ObjectOptions{IgnoreChangedFields: []string{"/stringData"}}
	apply(whole, "1 configured")
	change()
	apply(whole, "1 unchanged")
	apply(appliedwork.ObjectOptions{Strategy: appliedwork.StrategyUpdate, IgnoreFields: []string{"/data/value"}}, "1 configured")
	if value, _, _ := unstructured.NestedString(s.objects[path], "data", "value"); value != "dGhlaXJz" {
		t.Errorf("the value is %s", value)
	}
	apply(appliedwork.ObjectOptions{}, "1 configured")
	if value, _, _ := unstructured.NestedString(s.objects[path], "data", "value"); value != "Mg==" {
		t.Errorf("the value is %s", value)
	}
}

// ignoredRace: another manager changes an ignored field just before the write.
func ignoredRace(s *scene) {
	a := manifest("a", "1")
	a.SetLabels(map[string]string{"version": "1"})
	key, err := appliedwork.Identify(a)
	if err != nil {
		s.t.Fatal(err)
	}
	options := appliedwork.ApplyOptions{ByKey: map[appliedwork.Key]appliedwork.ObjectOptions{key: {Force: true, IgnoreFields: []string{"/data/value"}}}}
	if _, err := s.apply(options, a); err != nil {
		s.t.Fatal(err)
	}
	s.at(http.MethodPatch, shop+"a", func(*http.Request, []byte) {
		s.write(shop+"a", func(obj *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(obj.Object, "theirs", "data", "value")
		})
	})
	s.write(shop+"a", func(obj *unstructured.Unstructured) { // as after an apply, so one request changes it
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "appliedwork-" + string(s.work.UID), Operation: metav1.ManagedFieldsOperationApply,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:value":{}}}`),
		}})
	})
	a.SetLabels(map[string]string{"version": "2"})
	changes, err := s.apply(options, a)
	if err != nil || changes.String() != "1 configured" {
		s.t.Errorf("%v, %v", changes, err)
	}
	stored := &unstructured.Unstructured{Object: s.objects[shop+"a"]}
	if value, _, _ := unstructured.NestedString(stored.Object, "data", "value"); value != "theirs" || stored.GetLabels()["version"] != "2" {
		s.t.Errorf("%v", stored.Object)
	}
}

// FuzzIgnoreFields: no pointer causes a panic or changes the live object.
func FuzzIgnoreFields(f *testing.F) {
	for _, seed := range []string{"/spec/replicas", "/metadata/labels/a~1b", "/spec/args/0", "/spec/template/spec/containers/1/ports/0", "/", "//", "/spec", "/metadata/managedFields"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, always, changed string) {
		on := object(ignoringLive, ignoringOurs)
		_, err := appliedwork.Leave(object(ignoring), on, appliedwork.ObjectOptions{IgnoreFields: []string{always}, IgnoreChangedFields: []string{changed}}, isOurs)
		if err != nil && !errors.Is(err, appliedwork.ErrInvalidInput) || !cmp.Equal(object(ignoringLive, ignoringOurs), on) {
			t.Error(err)
		}
	})
}
