// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fieldset_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork/internal/fieldset"
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

// options are the JSON pointers of a test.
type options struct{ always, ifChanged []string }

// leave returns the part of a manifest that is sent for a live object.
func leave(manifest, live *unstructured.Unstructured, o options) (*unstructured.Unstructured, error) {
	for _, pointer := range slices.Concat(o.always, o.ifChanged) {
		if err := fieldset.CheckPointer(manifest, pointer); err != nil {
			return nil, err
		}
	}
	ignored, err := fieldset.Ignore(manifest, o.always, o.ifChanged)
	if err != nil {
		return nil, err
	}
	sent := manifest.DeepCopy()
	ignored.LeaveTo(sent, live, func(manager string) bool { return manager == "ours" })
	return sent, nil
}

func object(text string, args ...any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(fmt.Appendf(nil, text, args...), &obj.Object); err != nil {
		panic(err)
	}
	return obj
}

// TestIgnoredFieldsKeepLiveValues checks that ignored fields of other managers are not sent, and
// that ignored fields of ours are sent with their live values.
func TestIgnoredFieldsKeepLiveValues(t *testing.T) {
	const log, web = `{"name":"log","image":"log:1","ports":[{"containerPort":80}]}`, `{"name":"web","image":"web:1"}`
	containers := func(items ...string) string {
		return `{"spec":{"template":{"spec":{"containers":[` + strings.Join(items, ",") + `]}}}}`
	}
	image := "/spec/template/spec/containers/1/image"
	for _, tt := range []struct {
		name    string
		options options
		fields  string // our managed fields
		want    string // a JSON merge patch of the manifest
	}{
		{"a field of others", options{always: []string{"/spec/replicas"}}, `{}`, `{"spec":{"replicas":null}}`},
		{"a field of ours", options{always: []string{"/spec/replicas"}}, ignoringOurs, `{"spec":{"replicas":7}}`},
		{"escapes", options{always: []string{"/metadata/labels/a~1b", "/metadata/labels/c~0d"}}, ignoringOurs,
			`{"metadata":{"labels":{"a/b":"live","c~d":null}}}`},
		{"an item of ours", options{always: []string{image}}, ignoringOurs,
			containers(log, `{"name":"web","image":"web:live"}`)},
		{"an item of others", options{always: []string{"/spec/template/spec/containers/0/image"}}, ignoringOurs,
			containers(`{"name":"log","ports":[{"containerPort":80}]}`, web)},
		{"only our part of an item", options{always: []string{"/spec/template/spec/containers/1"}}, ignoringOurs,
			containers(log, `{"name":"web","image":"web:live"}`)},
		{"only our part of a list", options{always: []string{"/spec/template/spec/containers"}}, ignoringOurs,
			containers(`{"name":"web","image":"web:live"}`)},
		{"a port with a default", options{always: []string{"/spec/template/spec/containers/0/ports/0"}}, ignoringPorts,
			containers(log, web)},
		{"an item of a set", options{always: []string{"/spec/args/0", "/spec/args/1"}},
			`{"f:spec":{"f:args":{"v:\"x\"":{},"v:\"q\"":{}}}}`, `{"spec":{"args":["x","z"]}}`},
		{"several items", options{always: []string{"/spec/args/0", "/spec/args/1"}}, `{}`, `{"spec":{"args":["z"]}}`},
		{"an atomic list of ours", options{always: []string{"/spec/args"}}, ignoringOurs, `{"spec":{"args":["x","q"]}}`},
		{"all fields of ours", options{always: []string{"/spec"}}, `{"f:spec":{".":{},"f:replicas":{}}}`,
			`{"spec":{"replicas":7,"template":null,"args":null}}`},
		{"a field above another", options{always: []string{"/spec", "/spec/replicas"}}, `{}`, `{"spec":null}`},
		{"nothing there", options{always: []string{"/spec/nothing/at/all", "/spec/nothing", "/spec/args/9",
			"/spec/replicas/0"}}, ignoringOurs, `{}`},
		{"unchanged", options{ifChanged: []string{"/spec/replicas", image}}, ignoringOurs, `{}`},
		{"changed by others", options{ifChanged: []string{"/spec/replicas"}}, `{"f:spec":{"f:args":{}}}`,
			`{"spec":{"replicas":null}}`},
		{"unchanged, and not on the cluster",
			options{ifChanged: []string{"/spec/template/spec/containers/0/ports/0/containerPort"}}, ignoringPorts, `{}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want, err := jsonpatch.MergePatch([]byte(ignoring), []byte(tt.want))
			if err != nil {
				t.Fatal(err)
			}
			on := object(ignoringLive, tt.fields)
			got, err := leave(object(ignoring), on, tt.options)
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

// TestIgnoredFieldsStayAfterRemovalFromManifest checks the fields that are sent when the manifest
// does not have them any more.
func TestIgnoredFieldsStayAfterRemovalFromManifest(t *testing.T) {
	const manifest = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"template":{"spec":{"containers":[{"name":"web"}]}}}}`
	pointers := []string{"/spec/replicas", "/metadata/labels", "/metadata/labels/none",
		"/spec/template/spec/containers/0/image", "/spec/more/replicas"}
	for _, tt := range []struct {
		name, fields, want string
		options            options
	}{
		{"ours", ignoringOurs,
			`{"metadata":{"labels":{"a/b":"live"}},"spec":{"replicas":7,"template":{"spec":{"containers":[{"name":"web","image":"web:live"}]}}}}`, options{always: pointers}},
		{"not ours", `{"f:spec":{"f:args":{}}}`, `{}`, options{always: pointers}},
		{"unchanged", ignoringOurs, `{}`, options{ifChanged: pointers}},
	} {
		want, err := jsonpatch.MergePatch([]byte(manifest), []byte(tt.want))
		if err != nil {
			t.Fatal(err)
		}
		got, err := leave(object(manifest), object(ignoringLive, tt.fields), tt.options)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(object("%s", want).Object, got.Object); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// TestTimeToIgnoreFieldsIsLinear checks that the time grows with the length of a list, not with its
// square. A busy machine may slow down some attempts, but not all.
func TestTimeToIgnoreFieldsIsLinear(t *testing.T) {
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
		got, err := leave(obj, obj, options{always: pointers})
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

// FuzzIgnore checks that no pointer causes a panic or changes the live object.
func FuzzIgnore(f *testing.F) {
	for _, seed := range []string{"/spec/replicas", "/metadata/labels/a~1b", "/spec/args/0",
		"/spec/template/spec/containers/1/ports/0", "/", "//", "/spec", "/metadata/managedFields"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, always, changed string) {
		on := object(ignoringLive, ignoringOurs)
		_, _ = leave(object(ignoring), on, options{always: []string{always}, ifChanged: []string{changed}})
		if !cmp.Equal(object(ignoringLive, ignoringOurs), on) {
			t.Error("the live object was changed")
		}
	})
}
