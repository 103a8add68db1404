// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// TestInterpreterValidation: Validate refuses every random configuration that a real API server
// refuses, at the same field. In addition, it refuses only errors that a schema cannot detect.
func TestInterpreterValidation(t *testing.T) {
	t.Parallel()
	cluster := interpreterCluster(t)
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"ResourceExploringWebhookConfiguration", "ResourceInterpreterWebhookConfiguration"} {
		c := configurations{t: t, client: client, kind: kind}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			both, ours, none := 0, 0, 0
			for seed := range uint64(400) {
				u := c.random(rand.New(rand.NewPCG(seed, 3)))
				refused, beyond := c.compare(t, u)
				if t.Failed() {
					text, _ := yaml.Marshal(u.Object)
					t.Fatalf("seed %d:\n%s", seed, text)
				}
				switch {
				case refused:
					both++
				case beyond:
					ours++
				default:
					none++
				}
			}
			t.Logf("both refuse %d, only Validate %d, nobody %d", both, ours, none)
			if both < 100 || ours < 20 || none < 100 {
				t.Error("the configurations are not random enough")
			}
		})
	}
}

// unseen lists the errors that only Validate reports, by a part of the field and of the error.
var unseen = []struct{ field, problem string }{
	{".clientConfig.caBundle", "Invalid value"},
	{".clientConfig.service.name", "Required value"}, // the value is set but empty
	{".clientConfig.service.namespace", "Required value"},
	{".clientConfig.service.port", "must be between"},
	{".clientConfig.service.path", "must be a path"},
	{".clientConfig.url", "is not a URL"},
	{".clientConfig.url", "has no host"},
	{"Versions[", "a DNS-1035 label must"},
	{"Versions[", "Duplicate value"},
	{".apiVersions[", "Required value"}, // the value is set but empty
	{".kinds[", "Required value"},
	{".resources[", "Required value"},
	// The rules of the Explore protocol use a Kubernetes type with a schema that checks little.
	{".resources", ""}, {".apiGroups", ""}, {".apiVersions", ""}, {".scope", ""},
}

// compare reports whether both refuse a configuration, or only Validate.
func (c *configurations) compare(t *testing.T, u *unstructured.Unstructured) (refused, beyond bool) {
	t.Helper()
	errs := validate(t, u)
	_, err := c.client.Resource(c.resource()).Create(t.Context(), u,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil {
		for _, e := range errs {
			known := func(w struct{ field, problem string }) bool {
				return strings.Contains(e.Field, w.field) && strings.Contains(e.Error(), w.problem) &&
					(w.problem != "" || c.explores())
			}
			if !slices.ContainsFunc(unseen, known) {
				t.Errorf("the API server takes it, Validate says %v", e)
			}
		}
		return false, len(errs) > 0
	}
	if !apierrors.IsInvalid(err) {
		t.Fatalf("%v", err)
	}
	if len(errs) == 0 {
		t.Errorf("the API server says %v, Validate nothing", err)
	}
	for _, cause := range err.(apierrors.APIStatus).Status().Details.Causes {
		found := false
		for _, e := range errs {
			// A rule about a whole object is reported at the object, or at one of its fields.
			found = found || e.Field == cause.Field || strings.HasPrefix(e.Field, cause.Field+"[") ||
				strings.HasPrefix(cause.Field, e.Field+".") || strings.HasPrefix(e.Field, cause.Field+".")
		}
		// If types are wrong, the API server reports that it skipped other rules.
		if !found && !strings.Contains(cause.Message, "some validation rules were not checked") {
			t.Errorf("the API server refuses %s (%s), Validate says %v", cause.Field, cause.Message, errs)
		}
	}
	return true, false
}

// random returns a valid configuration with up to three changes.
func (c *configurations) random(r *rand.Rand) *unstructured.Unstructured {
	u := c.of("random", "")
	hooks := u.Object["webhooks"].([]any)
	hook := hooks[0].(map[string]any)
	for range r.IntN(4) {
		c.change(r, u, hook)
	}
	return u
}

func oneOf[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// strs returns up to n values of a list in their JSON form.
func strs(r *rand.Rand, n int, list ...string) []any {
	out := []any{}
	for range r.IntN(n + 1) {
		out = append(out, oneOf(r, list...))
	}
	return out
}

// change makes one random change to a configuration and its first webhook.
func (c *configurations) change(r *rand.Rand, u *unstructured.Unstructured, hook map[string]any) {
	rules, _ := hook["rules"].([]any)
	rule := map[string]any{}
	if len(rules) > 0 {
		rule = rules[0].(map[string]any)
	}
	long := func(n int) string { return strings.Repeat("x", n+r.IntN(3)-1) }
	versions, names := "interpreterContextVersions", "kinds"
	if c.explores() {
		versions, names = "exploreReviewVersions", "resources"
	}
	switch r.IntN(12) {
	case 0:
		hook["name"] = oneOf(r, "", "a", "a.b", "a.b.c", "A.b.c", "a..c", "-a.b.c", "a.b.c.", "é.b.c", "a_b.c.d",
			long(250)+".b.c", "a."+long(63)+".c")
	case 1:
		hook["clientConfig"] = map[string]any{"url": oneOf(r, "", "https://a", "https://a/", "http://a/", "HTTPS://a/",
			"https://", "https:///b", "https://a b/", "https://a?b", "https://a/?", "https://a#", "https://u:p@a/",
			"https://a/b@c", "https://[::1]:8443/", "https://a:b/", "https://:443/", "//a/", "https://a/%zz", " https://a/",
			"https://a/\n", "https:a", "https://a/"+long(2038), "https://é/"+strings.Repeat("é", 2038))}
	case 2:
		hook["clientConfig"] = oneOf(r, map[string]any{}, map[string]any{"url": "https://a/",
			"service": map[string]any{"name": "a", "namespace": "b"}}, map[string]any{"caBundle": "YWJj", "url": "https://a/"})
	case 3:
		hook["clientConfig"] = map[string]any{"service": map[string]any{"name": oneOf(r, "", "a", "A b"),
			"namespace": oneOf(r, "", "b"), "path": oneOf(r, "", "/", "/a", "a", "/a?b", "//a", "/a#b"),
			"port": oneOf(r, int64(0), 1, 443, 65535, 65536, -1)}}
	case 4:
		hook["timeoutSeconds"] = oneOf(r, int64(-1), 0, 1, 15, 30, 31)
	case 5:
		hook[versions] = strs(r, 3, "v1alpha1", "v1alpha1", "v1", "V1", "", "v1.2", long(63))
	case 6:
		hook[versions] = slices.Repeat([]any{"v1alpha1"}, 15+r.IntN(3))
	case 7:
		if c.explores() {
			hook["failurePolicy"] = oneOf(r, "Fail", "Ignore", "Maybe", "")
			rule["scope"] = oneOf(r, "*", "Cluster", "Namespaced", "Here", "")
		}
	case 8:
		rule["operations"] = strs(r, 3, "*", "ExploreHealthy", "InterpretHealth", "Prune", "ExplorePacking",
			"InterpretComponent", "", "prune")
		if r.IntN(4) == 0 {
			rule["operations"] = slices.Repeat([]any{oneOf(r, "Prune", "ExplorePacking")}, 15+r.IntN(3))
		}
	case 9:
		list := oneOf(r, "apiGroups", "apiVersions", names)
		rule[list] = strs(r, 3, "*", "apps", "", long(63), long(253), "a/b", "a/*")
		if r.IntN(3) == 0 {
			rule[list] = slices.Repeat([]any{"x"}, 63+r.IntN(3))
		}
	case 10:
		hook["rules"] = slices.Repeat(slices.Clone(rules), oneOf(r, 0, 2, 63, 64, 65))
	case 11:
		count := oneOf(r, 0, 2, 127, 128, 129)
		all := []any{}
		for i := range count {
			other := (&unstructured.Unstructured{Object: hook}).DeepCopy().Object
			if r.IntN(count+5) > 1 { // most hooks have a unique name
				other["name"] = fmt.Sprintf("w%d.example.com", i)
			}
			all = append(all, other)
		}
		u.Object["webhooks"] = all
	}
}
