// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spoke_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
)

func executor(namespace, name string) *workv1.ManifestWorkExecutor {
	return &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type:           workv1.ExecutorSubjectTypeServiceAccount,
		ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: namespace, Name: name},
	}}
}

// TestTextsOfRefusals checks that the cause of a refusal is not after the value of an object.
func TestTextsOfRefusals(t *testing.T) {
	for text, want := range map[string]string{
		`a: Invalid value: 7: must be less than 5`: `a: Invalid value: 7: must be less than 5`,
		`[a: Invalid value: {"b":{"c":[]}}: field is immutable, d: Invalid value: {}: wrong]`: "[a: Invalid value: {…}: " +
			"field is immutable, d: Invalid value: {…}: wrong]",
	} {
		if got := spoke.WithoutValues(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestUserOf(t *testing.T) {
	nobody, other := executor("", ""), executor("n", "a")
	nobody.Subject.ServiceAccount, other.Subject.Type = nil, "User"
	for _, tt := range []struct {
		executor  *workv1.ManifestWorkExecutor
		want, err string
	}{
		{executor("n", "a"), "system:serviceaccount:n:a", ""},
		{executor("n", ""), "", "needs a namespace and a name"},
		{nobody, "", "needs a namespace and a name"},
		{other, "", `spec.executor.subject.type "User" is not supported`},
		{executor("n:kube-system", "a"), "", "invalid spec.executor.subject.serviceAccount.namespace"},
		{executor("n", "a:b"), "", "invalid spec.executor.subject.serviceAccount.name"},
	} {
		got, err := spoke.UserOf(tt.executor)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// TestConflict checks that the error of a conflict names the possible changes to the work.
func TestConflict(t *testing.T) {
	err := spoke.Explain(fmt.Errorf("apply: %w", &appliedwork.OwnershipConflictError{
		Key:    appliedwork.Key{Kind: "ConfigMap", Namespace: "n", Name: "c"},
		Fields: []string{`conflict with "kubectl": .data.a`},
	}))
	const want = `ConfigMap n/c: other managers own fields of the manifest (conflict with "kubectl": .data.a): remove the fields, or set updateStrategy.serverSideApply.force in its manifestConfigs`
	if conflict := (*appliedwork.OwnershipConflictError)(nil); err.Error() != want || !errors.As(err, &conflict) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestIdentities checks that each service account has one set of clients, which is dropped when
// many other accounts are used.
func TestIdentities(t *testing.T) {
	c, err := spoke.New(spoke.Options{Config: &rest.Config{Host: "https://127.0.0.1:1"}, Hub: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	identity := func(e *workv1.ManifestWorkExecutor) any {
		t.Helper()
		id, err := c.IdentityOf(e)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	agent, first := identity(nil), identity(executor("n", "a"))
	if agent == first || identity(nil) != agent || identity(executor("n", "a")) != first ||
		identity(executor("n", "b")) == first {
		t.Error("identities are mixed up")
	}
	for i := range 200 {
		identity(executor("n", fmt.Sprint(i)))
	}
	if identity(executor("n", "a")) == first {
		t.Error("the clients of all service accounts are kept")
	}
}

// TestExecutors checks that a work is served only for an executor that the options allow. Without a
// list in the options, every executor is allowed, and a work needs none.
func TestExecutors(t *testing.T) {
	for _, tt := range []struct {
		allowed  []string
		executor *workv1.ManifestWorkExecutor
		err      string
	}{
		{nil, nil, ""},
		{nil, executor("n", "a"), ""},
		{[]string{spoke.AnyExecutor}, executor("n", "a"), ""},
		{[]string{spoke.AnyExecutor}, nil, "the agent requires an executor, and the work has no executor: " +
			"set spec.executor to a service account"},
		{[]string{"n/a", "m/*"}, nil, "set spec.executor to a service account that matches n/a or m/*"},
		{[]string{"n/a", "m/*"}, executor("n", "a"), ""},
		{[]string{"n/a", "m/*"}, executor("m", "b"), ""},
		{[]string{"n/a", "m/*"}, executor("n", "b"), "the agent does not allow the executor n/b"},
		{[]string{"n/a", "m/*"}, executor("mm", "a"), "the agent does not allow the executor mm/a"},
		{[]string{"n/*"}, executor("n", "a:b"), "invalid spec.executor.subject.serviceAccount.name"},
	} {
		c, err := spoke.New(spoke.Options{
			Config: &rest.Config{Host: "https://127.0.0.1:1"}, Hub: "hub", Executors: tt.allowed,
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.IdentityOf(tt.executor)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%v, of %q: %v, want %q", tt.executor, tt.allowed, err, tt.err)
		}
	}
	for _, pattern := range []string{"", "a", "a/", "/a", "a/b/c", "a/["} {
		_, err := spoke.New(spoke.Options{Config: &rest.Config{}, Hub: "hub", Executors: []string{pattern}})
		if err == nil || !strings.Contains(err.Error(), "invalid Options.Executors: ") {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

// TestAdoptionRefused checks that the error names the agent flag that would adopt the object.
func TestAdoptionRefused(t *testing.T) {
	refused := &appliedwork.AdoptionError{Key: appliedwork.Key{Kind: "ConfigMap", Namespace: "n", Name: "c"}}
	const want = "ConfigMap n/c exists and is not owned by this work: delete it, or start the agent with --adopt unowned"
	if got := spoke.Explain(refused); got.Error() != want || !errors.Is(got, refused) {
		t.Errorf("%v, want %s", got, want)
	}
	refused.Owners = []metav1.OwnerReference{{Kind: "AppliedWork", Name: "other"}}
	const owned = "ConfigMap n/c exists and is owned by AppliedWork other: delete it, or start the agent with --adopt always"
	if got := spoke.Explain(refused); got.Error() != owned {
		t.Errorf("%v, want %s", got, owned)
	}
}

// TestImpersonated checks that requests for an executor impersonate it, also for AppliedWorks. Only
// the requests for inventories are made as the agent.
func TestImpersonated(t *testing.T) {
	users := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		users <- r.Header.Get("Impersonate-User")
		http.Error(w, "no", http.StatusForbidden)
	}))
	defer server.Close()
	c, err := spoke.New(spoke.Options{Config: &rest.Config{Host: server.URL}, Hub: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	client, tracker, err := c.ClientsOf(executor("n", "a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"},
		v1alpha1.GroupVersionResource,
		{Group: v1alpha1.GroupName, Version: "v1alpha1", Resource: "serviceexports"},
	} {
		if _, err := client.Resource(resource).Get(t.Context(), "x", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", resource, err)
		}
		if user := <-users; user != "system:serviceaccount:n:a" {
			t.Errorf("%s are asked for as %q", resource, user)
		}
	}
	if _, err := tracker.Ensure(t.Context(), "w", v1alpha1.AppliedWorkSpec{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	if user := <-users; user != "" {
		t.Errorf("the record is kept as %q", user)
	}
}

func TestPolicies(t *testing.T) {
	entry := func(name string) v1alpha1.ResourceIdentifier {
		return v1alpha1.ResourceIdentifier{Kind: "ConfigMap", Resource: "configmaps", Namespace: "n", Name: name}
	}
	selective := &workv1.DeleteOption{
		PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
		SelectivelyOrphan: &workv1.SelectivelyOrphan{
			OrphaningRules: []workv1.OrphaningRule{{Resource: "configmaps", Namespace: "n", Name: "a"}},
		},
	}
	for _, tt := range []struct {
		name   string
		option *workv1.DeleteOption
		want   string // of a, b and a read-only object
	}{
		{"none", nil, "Delete Delete Orphan"},
		{"foreground", &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeForeground},
			"Delete Delete Orphan"},
		{"orphan", &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}, "Orphan Orphan Orphan"},
		{"selective", selective, "Orphan Delete Orphan"},
		{"selective without rules",
			&workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan},
			"Delete Delete Orphan"},
	} {
		p, err := spoke.Policies(tt.option, appliedwork.KeyOf(entry("read")))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(p.For(entry("a")), " ", p.For(entry("b")), " ", p.For(entry("read"))); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	// An unknown policy is an error: Orphan may be meant.
	if _, err := spoke.Policies(&workv1.DeleteOption{PropagationPolicy: "orphan"}); err == nil ||
		!strings.Contains(err.Error(), `propagationPolicy "orphan" is unknown`) {
		t.Error(err)
	}
}

// TestTemporaryErrors checks that Away is true only for errors that may be temporary.
func TestTemporaryErrors(t *testing.T) {
	fails := func(server *httptest.Server, config *rest.Config) error {
		defer server.Close()
		c, err := spoke.New(spoke.Options{Config: config, Hub: "hub"})
		if err != nil {
			t.Fatal(err)
		}
		return c.Install(t.Context())
	}
	answers := func(code int) error {
		server := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }))
		return fails(server, &rest.Config{Host: server.URL})
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	untrusted := httptest.NewUnstartedServer(nil)
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	plain := httptest.NewServer(nil)
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"nobody is there", fails(gone, &rest.Config{Host: gone.URL}), true},
		{"it hangs up", &url.Error{Op: "Get", URL: gone.URL, Err: io.EOF}, true},
		{"it has an error", answers(http.StatusInternalServerError), true},
		{"a proxy without a server", answers(http.StatusBadGateway), true},
		{"it starts", answers(http.StatusServiceUnavailable), true},
		{"it forbids", answers(http.StatusForbidden), false},
		{"it does not know who asks", answers(http.StatusUnauthorized), false},
		{"another certificate", fails(untrusted, &rest.Config{Host: untrusted.URL}), false},
		{"it speaks no TLS", fails(plain, &rest.Config{Host: strings.Replace(plain.URL, "http:", "https:", 1)}), false},
	} {
		if tt.err == nil || spoke.Away(tt.err) != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, tt.err, tt.want)
		}
	}
}
