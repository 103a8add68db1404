// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/spokewire/sdk-go/internal/testing/alloctest"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// good returns configurations without errors.
func good() (v1alpha1.ResourceExploringWebhookConfiguration, v1alpha1.ResourceInterpreterWebhookConfiguration) {
	client := func() admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: new("https://hook.example.com:8443/interpret")}
	}
	return v1alpha1.ResourceExploringWebhookConfiguration{Webhooks: []v1alpha1.ResourceExploringWebhook{{
			Name: "foo.example.com", ClientConfig: client(), ExploreReviewVersions: []string{"v1alpha1"},
			Rules: []v1alpha1.RuleWithOperations{{Operations: []v1alpha1.OperationType{v1alpha1.ExploreHealthy},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"*"},
					Resources: []string{"foos"}}}},
		}}}, v1alpha1.ResourceInterpreterWebhookConfiguration{Webhooks: []v1alpha1.ResourceInterpreterWebhook{{
			Name: "foo.example.com", ClientConfig: client(), InterpreterContextVersions: []string{"v2", "v1alpha1"},
			Rules: []v1alpha1.KindRuleWithOperations{{Operations: []v1alpha1.InterpreterOperation{v1alpha1.InterpreterOperationInterpretHealth},
				KindRule: v1alpha1.KindRule{APIGroups: []string{""}, APIVersions: []string{"*"}, Kinds: []string{"Foo"}}}},
		}}}
}

// TestValidate checks the exact error of each fault.
func TestValidate(t *testing.T) {
	type e = *v1alpha1.ResourceExploringWebhook
	type i = *v1alpha1.ResourceInterpreterWebhook
	ca := []byte(certtest.New(t).PEM)
	tests := []struct {
		name    string
		explore func(e)
		inter   func(i)
		want    string
	}{
		{"valid", func(e) {}, func(i) {}, ""},
		{"a CA bundle", func(w e) { w.ClientConfig.CABundle = ca }, func(w i) { w.ClientConfig.CABundle = ca }, ""},
		{"no name", func(w e) { w.Name = "" }, func(w i) { w.Name = "" },
			"webhooks[0].name: Required value: a webhook needs a qualified name, such as workload.example.com"},
		{"a short name", func(w e) { w.Name = "a.b" }, func(w i) { w.Name = "a.b" },
			`webhooks[0].name: Invalid value: "a.b": must be a domain of at least three parts, such as workload.example.com`},
		{"neither", func(w e) { w.ClientConfig.URL = nil }, func(w i) { w.ClientConfig.URL = nil },
			"webhooks[0].clientConfig: Required value: exactly one of url and service is required"},
		{"both", func(w e) { w.ClientConfig.Service = &admissionregistrationv1.ServiceReference{} },
			func(w i) { w.ClientConfig.Service = &admissionregistrationv1.ServiceReference{} },
			"webhooks[0].clientConfig: Forbidden: exactly one of url and service is required: both are set"},
		{"http", func(w e) { w.ClientConfig.URL = new("http://a/") }, func(w i) { w.ClientConfig.URL = new("http://a/") },
			`webhooks[0].clientConfig.url: Invalid value: the scheme is "http": it must be https`},
		{"a user", func(w e) { w.ClientConfig.URL = new("https://a:b@c/") },
			func(w i) { w.ClientConfig.URL = new("https://a:b@c/") },
			"webhooks[0].clientConfig.url: Invalid value: must not have a user or a password"},
		{"a query", func(w e) { w.ClientConfig.URL = new("https://a/?token=x") },
			func(w i) { w.ClientConfig.URL = new("https://a/?token=x") },
			"webhooks[0].clientConfig.url: Invalid value: must not have a query"},
		{"a fragment", func(w e) { w.ClientConfig.URL = new("https://a/#x") },
			func(w i) { w.ClientConfig.URL = new("https://a/#x") },
			"webhooks[0].clientConfig.url: Invalid value: must not have a fragment"},
		{"no host", func(w e) { w.ClientConfig.URL = new("https:///x") },
			func(w i) { w.ClientConfig.URL = new("https:///x") }, "webhooks[0].clientConfig.url: Invalid value: has no host"},
		{"no URL", func(w e) { w.ClientConfig.URL = new("https://a:b:c") },
			func(w i) { w.ClientConfig.URL = new("https://a:b:c") },
			"webhooks[0].clientConfig.url: Invalid value: is not a URL: write https://host:port/path"},
		{"no certificate", func(w e) { w.ClientConfig.CABundle = []byte("x") },
			func(w i) { w.ClientConfig.CABundle = []byte("x") },
			"webhooks[0].clientConfig.caBundle: Invalid value: has no PEM certificate"},
		{"half a certificate", func(w e) { w.ClientConfig.CABundle = append(ca[:len(ca):len(ca)], ca[:50]...) },
			func(w i) { w.ClientConfig.CABundle = append(ca[:len(ca):len(ca)], ca[:50]...) },
			"webhooks[0].clientConfig.caBundle: Invalid value: ends within certificate 2"},
		{"a service", func(w e) { w.ClientConfig = service("", "") }, func(w i) { w.ClientConfig = service("", "") },
			"[webhooks[0].clientConfig.service.name: Required value: the service's name, " +
				"webhooks[0].clientConfig.service.namespace: Required value: the service's namespace]"},
		{"path of a service", func(w e) { w.ClientConfig = service("a", "x?y") },
			func(w i) { w.ClientConfig = service("a", "x?y") },
			"webhooks[0].clientConfig.service.path: Invalid value: must be a path that begins with one /, without //, . and " +
				".. in it, query, fragment and %"},
		{"zero timeout", func(w e) { w.TimeoutSeconds = new(int32(0)) }, func(w i) { w.TimeoutSeconds = new(int32(0)) },
			"webhooks[0].timeoutSeconds: Invalid value: 0: must be between 1 and 30 seconds"},
		{"all and another", func(w e) { w.Rules[0].Operations = []v1alpha1.OperationType{"*", "ExploreReplica"} }, nil,
			`webhooks[0].rules[0].operations: Invalid value: ["*","ExploreReplica"]: '*' must be alone`},
		{"an operation of the Interpret protocol", func(w e) { w.Rules[0].Operations = []v1alpha1.OperationType{"Prune"} },
			nil,
			`webhooks[0].rules[0].operations[0]: Invalid value: "Prune": is not an operation of this protocol`},
		{"an operation of the Explore protocol", nil,
			func(w i) { w.Rules[0].Operations = []v1alpha1.InterpreterOperation{"ExplorePacking"} },
			`webhooks[0].rules[0].operations[0]: Invalid value: "ExplorePacking": is not an operation of this protocol`},
		{"no kinds", nil, func(w i) { w.Rules[0].Kinds = nil },
			"webhooks[0].rules[0].kinds: Required value: at least one, or *"},
		{"an empty kind", nil, func(w i) { w.Rules[0].Kinds = []string{""} },
			"webhooks[0].rules[0].kinds[0]: Required value"},
		{"all groups and one", nil, func(w i) { w.Rules[0].APIGroups = []string{"*", "apps"} },
			`webhooks[0].rules[0].apiGroups: Invalid value: ["*","apps"]: '*' must be alone`},
		{"a subresource", func(w e) { w.Rules[0].Resources = []string{"foos/status"} }, nil,
			`webhooks[0].rules[0].resources[0]: Invalid value: "foos/status": must not name a subresource`},
		{"no versions", func(w e) { w.ExploreReviewVersions = nil }, nil,
			"webhooks[0].exploreReviewVersions: Required value: must include one of v1alpha1"},
		{"unknown versions", nil, func(w i) { w.InterpreterContextVersions = []string{"v2"} },
			`webhooks[0].interpreterContextVersions: Invalid value: ["v2"]: must include one of v1alpha1`},
		{"one version twice", nil, func(w i) { w.InterpreterContextVersions = []string{"v1alpha1", "v1alpha1"} },
			`webhooks[0].interpreterContextVersions[1]: Duplicate value: "v1alpha1"`},
		{"unknown failure policy", func(w e) { w.FailurePolicy = new(admissionregistrationv1.FailurePolicyType("Maybe")) },
			nil, `webhooks[0].failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"`},
		{"unknown scope", func(w e) { w.Rules[0].Scope = new(admissionregistrationv1.ScopeType("Here")) }, nil,
			`webhooks[0].rules[0].scope: Unsupported value: "Here": supported values: "Cluster", "Namespaced", "*"`},
	}
	many := func(n int, text string) []string { return slices.Repeat([]string{text}, n) }
	tests = append(tests, []struct {
		name    string
		explore func(e)
		inter   func(i)
		want    string
	}{
		{"maximum number of rules", func(w e) { w.Rules = slices.Repeat(w.Rules, 64) },
			func(w i) { w.Rules = slices.Repeat(w.Rules, 64) }, ""},
		{"too many rules", func(w e) { w.Rules = slices.Repeat(w.Rules, 65) },
			func(w i) { w.Rules = slices.Repeat(w.Rules, 65) }, "webhooks[0].rules: Too many: 65: must have at most 64 items"},
		{"too many operations", func(w e) { w.Rules[0].Operations = slices.Repeat(w.Rules[0].Operations, 17) },
			func(w i) { w.Rules[0].Operations = slices.Repeat(w.Rules[0].Operations, 17) },
			"webhooks[0].rules[0].operations: Too many: 17: must have at most 16 items"},
		{"too many kinds", nil, func(w i) { w.Rules[0].Kinds = many(65, "Foo") },
			"webhooks[0].rules[0].kinds: Too many: 65: must have at most 64 items"},
		{"too many groups", nil, func(w i) { w.Rules[0].APIGroups = many(65, "g") },
			"webhooks[0].rules[0].apiGroups: Too many: 65: must have at most 64 items"},
		{"too many versions", nil, func(w i) { w.Rules[0].APIVersions = many(65, "v1") },
			"webhooks[0].rules[0].apiVersions: Too many: 65: must have at most 64 items"},
		{"a long kind", nil, func(w i) { w.Rules[0].Kinds = []string{strings.Repeat("é", 64)} },
			"webhooks[0].rules[0].kinds[0]: Too long: may not be more than 63 bytes"},
		{"a long URL", func(w e) { w.ClientConfig.URL = new("https://a.b/" + strings.Repeat("c", 2048)) }, nil,
			"webhooks[0].clientConfig.url: Too long: may not be more than 2048 bytes"},
		{"HTTPS", func(w e) { w.ClientConfig.URL = new("HTTPS://a.b/") }, nil,
			`webhooks[0].clientConfig.url: Invalid value: the scheme is "HTTPS": it must be https`},
	}...)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			check := func(err error) {
				t.Helper()
				got := ""
				if err != nil {
					got = err.Error()
				}
				if got != test.want {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
			}
			exploring, interpreting := good()
			if test.explore != nil {
				test.explore(&exploring.Webhooks[0])
				check(exploring.Validate().ToAggregate())
			}
			if test.inter != nil {
				test.inter(&interpreting.Webhooks[0])
				check(interpreting.Validate().ToAggregate())
			}
		})
	}
	exploring, _ := good()
	exploring.Webhooks = append(exploring.Webhooks, exploring.Webhooks[0])
	if errs := exploring.Validate(); len(errs) != 1 ||
		errs[0].Error() != `webhooks[1].name: Duplicate value: "foo.example.com"` {
		t.Errorf("two of one name: %v", errs)
	}
	exploring.Webhooks = nil
	if errs := exploring.Validate(); len(errs) != 1 ||
		errs[0].Error() != "webhooks: Required value: a list, which may be empty" {
		t.Errorf("no list: %v", errs)
	}
	for i := range 129 {
		one, _ := good()
		one.Webhooks[0].Name = fmt.Sprintf("w%d.example.com", i)
		exploring.Webhooks = append(exploring.Webhooks, one.Webhooks[0])
	}
	if errs := exploring.Validate(); len(errs) != 1 ||
		errs[0].Error() != "webhooks: Too many: 129: must have at most 128 items" {
		t.Errorf("too many webhooks: %v", errs)
	}
}

func service(name, path string) admissionregistrationv1.WebhookClientConfig {
	s := &admissionregistrationv1.ServiceReference{Name: name, Namespace: name}
	if path != "" {
		s.Path = &path
	}
	return admissionregistrationv1.WebhookClientConfig{Service: s}
}

func TestDefaults(t *testing.T) {
	exploring, interpreting := good()
	interpreting.Webhooks[0].ClientConfig = service("a", "")
	exploring.SetDefaults()
	interpreting.SetDefaults()
	e, i := exploring.Webhooks[0], interpreting.Webhooks[0]
	if *e.TimeoutSeconds != 10 || *e.FailurePolicy != "Fail" || *e.Rules[0].Scope != "*" || *i.TimeoutSeconds != 10 ||
		*i.ClientConfig.Service.Port != 443 {
		t.Errorf("%+v %+v", e, i)
	}
	interpreting.Webhooks[0].TimeoutSeconds = new(int32(3))
	if interpreting.SetDefaults(); *interpreting.Webhooks[0].TimeoutSeconds != 3 {
		t.Error("what is set is replaced")
	}
}

// TestScheme checks that a scheme creates objects of the kinds of both protocols, and that the
// objects can be encoded.
func TestScheme(t *testing.T) {
	scheme := kruntime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"ResourceExploringWebhookConfiguration", "ResourceInterpreterWebhookConfigurationList",
		"ExploreReview", "ResourceInterpreterContext"} {
		object, err := scheme.New(v1alpha1.GroupVersion.WithKind(kind))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(object.DeepCopyObject()); err != nil {
			t.Error(err)
		}
	}
}

// TestValidateStopsAfterManyErrors checks that validation of long lists of faults takes little memory and time.
func TestValidateStopsAfterManyErrors(t *testing.T) {
	type e = *v1alpha1.ResourceExploringWebhook
	type i = *v1alpha1.ResourceInterpreterWebhook
	const n = 20_000
	for name, spoil := range map[string]struct {
		explore func(e)
		inter   func(i)
		errors  int
	}{
		"rules": {func(w e) { w.Rules = make([]v1alpha1.RuleWithOperations, n) },
			func(w i) { w.Rules = make([]v1alpha1.KindRuleWithOperations, n) }, 1},
		"empty rules": {func(w e) { w.Rules = make([]v1alpha1.RuleWithOperations, 64) },
			func(w i) { w.Rules = make([]v1alpha1.KindRuleWithOperations, 64) }, 10},
		"operations": {func(w e) { w.Rules[0].Operations = slices.Repeat([]v1alpha1.OperationType{"*"}, n) },
			func(w i) { w.Rules[0].Operations = slices.Repeat([]v1alpha1.InterpreterOperation{"*"}, n) }, 1},
		"versions": {func(w e) { w.ExploreReviewVersions = make([]string, n) },
			func(w i) { w.InterpreterContextVersions = make([]string, n) }, 1},
		"kinds": {func(w e) { w.Rules[0].Resources = make([]string, n) }, nil, 10},
		"long kinds": {func(w e) { w.Rules[0].Resources = slices.Repeat([]string{"a/b"}, n) },
			func(w i) { w.Rules[0].Kinds = slices.Repeat([]string{strings.Repeat("a", 64)}, 64) }, 10},
	} {
		t.Run(name, func(t *testing.T) {
			exploring, interpreting := good()
			spoil.explore(&exploring.Webhooks[0])
			check := func(validate func() field.ErrorList) {
				t.Helper()
				var errs field.ErrorList
				allocated, took := alloctest.Cost(func() { errs = validate() })
				if len(errs) < spoil.errors || len(errs) > 10_000 || allocated > 256<<20 || took > 20*time.Second {
					t.Errorf("%d errors, allocated %d kB in %s", len(errs), allocated>>10, took)
				}
			}
			check(exploring.Validate)
			if spoil.inter != nil {
				spoil.inter(&interpreting.Webhooks[0])
				check(interpreting.Validate)
			}
		})
	}
	_, interpreting := good()
	interpreting.Webhooks = make([]v1alpha1.ResourceInterpreterWebhook, n)
	if errs := interpreting.Validate(); len(errs) == 0 || len(errs) > 10_000 {
		t.Errorf("%d webhooks: %d errors", n, len(errs))
	}
}

// TestTargetIsCalledAsNamed checks that an accepted target is called at the server and at the path that it names.
func TestTargetIsCalledAsNamed(t *testing.T) {
	const (
		at   = "webhooks[0].clientConfig."
		path = at + "service.path: Invalid value: must be a path that begins with one /, without //, . and .. in it, " +
			"query, fragment and %"
		port  = at + "url: Invalid value: must have a port between 1 and 65535"
		label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and " +
			"end with an alphanumeric character"
	)
	for _, test := range []struct{ url, name, namespace, path, want string }{
		{url: "https://a.example.com:65535/x"},
		{url: "https://bücher.example.com/x"},
		{url: "https://a.example.com:0/x", want: port},
		{url: "https://a.example.com:65536/x", want: port},
		{name: "hook", namespace: "prod", path: "/"},
		{name: "hook", namespace: "prod", path: "/interpret_Workload.v1/"},
		{name: "evil.example.com/x", namespace: "prod", want: at + `service.name: Invalid value: "evil.example.com/x": ` +
			label},
		{name: "hook", namespace: "a_b", want: at + `service.namespace: Invalid value: "a_b": ` + label},
		{name: "hook", namespace: "prod", path: "/a/../b", want: path},
		{name: "hook", namespace: "prod", path: "//b", want: path},
		{name: "hook", namespace: "prod", path: "/a%2Fb", want: path},
		{name: "hook", namespace: "prod", path: "/a?", want: path},
		{name: "hook", namespace: "prod", path: "/a#", want: path},
	} {
		_, interpreting := good()
		client := &interpreting.Webhooks[0].ClientConfig
		*client = admissionregistrationv1.WebhookClientConfig{URL: &test.url}
		if test.name != "" {
			*client = admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Name: test.name, Namespace: test.namespace},
			}
		}
		if test.path != "" {
			client.Service.Path = &test.path
		}
		got := ""
		if err := interpreting.Validate().ToAggregate(); err != nil {
			got = err.Error()
		}
		if got != test.want && (test.want == "" || !strings.HasPrefix(got, test.want)) {
			t.Errorf("%+v:\ngot  %s\nwant %s", test, got, test.want)
		}
	}
}
