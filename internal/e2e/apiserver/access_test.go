// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/worktest"
)

const worksPath = "/apis/work.open-cluster-management.io/v1/namespaces/cluster1/manifestworks"

// auditPolicy records the metadata of requests for works.
const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [
  {"level": "Metadata", "resources": [{"group": "work.open-cluster-management.io"}]}, {"level": "None"}]}`

// TestAccess checks authentication, authorization, audit, metrics and probes.
func TestAccess(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	policy, log := filepath.Join(folder, "policy.yaml"), filepath.Join(folder, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newScene(t, "--audit-policy-file", policy, "--audit-log-path", log)
	s.bind("alice", "cluster1", "manifestworks-edit")
	alice := s.cluster.User("alice", "developers")
	t.Run("role of a namespace", func(t *testing.T) { testRole(t, s.in(t), alice) })
	t.Run("authentication", func(t *testing.T) { testAuthentication(t, s.in(t)) })
	t.Run("impersonation", func(t *testing.T) { testImpersonation(t, s.in(t), alice) })
	t.Run("admission", func(t *testing.T) { testAdmission(t, s.in(t)) })
	t.Run("webhook", func(t *testing.T) { testWebhook(t, s.in(t)) })
	t.Run("audit", func(t *testing.T) { testAudit(t, s.in(t), log) })
	t.Run("metrics and probes", func(t *testing.T) { testMetrics(t, s.in(t)) })
}

// bind gives a user a role of the example in a namespace.
func (s *scene) bind(user, namespace, role string) {
	s.t.Helper()
	_, err := kubernetes.NewForConfigOrDie(s.cluster.Config()).RbacV1().RoleBindings(namespace).Create(s.t.Context(),
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: strings.ReplaceAll(user, ":", "-") + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// bindCluster gives a ServiceAccount of the namespace default a role in all namespaces.
func (s *scene) bindCluster(role, account string) {
	s.t.Helper()
	_, err := kubernetes.NewForConfigOrDie(s.cluster.Config()).RbacV1().ClusterRoleBindings().Create(s.t.Context(),
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: account + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: account}},
		}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// create creates a work with a ConfigMap.
func (s *scene) create(c workclientset.Interface, namespace, name string, owners ...metav1.OwnerReference) error {
	w := worktest.New(name, "")
	w.OwnerReferences = owners
	_, err := c.WorkV1().ManifestWorks(namespace).Create(s.t.Context(), w, metav1.CreateOptions{})
	return err
}

// testRole checks that a user with a role in one namespace sees and changes only works of that
// cluster.
func testRole(t *testing.T, s *scene, config *rest.Config) {
	user, ctx := workclientset.NewForConfigOrDie(config), t.Context()
	if err := s.create(workclientset.NewForConfigOrDie(s.cluster.Config()), "cluster2", "hidden"); err != nil {
		t.Fatal(err)
	}
	e2etest.Eventually(t, "the role is known", func() error { return s.create(user, "cluster1", "own") })
	list, err := user.WorkV1().ManifestWorks("cluster1").List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "own" {
		t.Errorf("list of cluster1 = %v, %v; want the work own", list, err)
	}
	watch, err := user.WorkV1().ManifestWorks("cluster1").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch of cluster1: %v", err)
	}
	defer watch.Stop()
	if event := <-watch.ResultChan(); event.Type != "ADDED" {
		t.Errorf("watch of cluster1 sends %v, want ADDED", event)
	}
	for what, call := range map[string]func() error{
		"get": func() error {
			_, err := user.WorkV1().ManifestWorks("cluster2").Get(ctx, "hidden", metav1.GetOptions{})
			return err
		},
		"list": func() error {
			_, err := user.WorkV1().ManifestWorks("cluster2").List(ctx, metav1.ListOptions{})
			return err
		},
		"list of all namespaces": func() error {
			_, err := user.WorkV1().ManifestWorks("").List(ctx, metav1.ListOptions{})
			return err
		},
		"watch of all namespaces": func() error {
			_, err := user.WorkV1().ManifestWorks("").Watch(ctx, metav1.ListOptions{})
			return err
		},
		"create": func() error { return s.create(user, "cluster2", "other") },
		"delete": func() error {
			return user.WorkV1().ManifestWorks("cluster2").Delete(ctx, "hidden", metav1.DeleteOptions{})
		},
		"update of the status": func() error {
			_, err := user.WorkV1().ManifestWorks("cluster1").UpdateStatus(ctx, &list.Items[0], metav1.UpdateOptions{})
			return err
		},
	} {
		if err := call(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want Forbidden", what, err)
		}
	}
}

// testAuthentication sends requests to the server itself, not through the API server.
func testAuthentication(t *testing.T, s *scene) {
	refused := func(what, status string, change func(*http.Request)) {
		t.Helper()
		if _, err := s.direct(worksPath, change); err == nil || !strings.Contains(err.Error(), status) {
			t.Errorf("%s: %v, want %s", what, err, status)
		}
	}
	refused("no credentials", `403 Forbidden`, nil)
	refused("headers of the front proxy without its certificate", `User \"system:anonymous\" cannot list`,
		func(r *http.Request) {
			r.Header.Set("X-Remote-User", "admin")
			r.Header.Set("X-Remote-Group", "system:masters")
		})
	refused("unknown token", `401 Unauthorized`, func(r *http.Request) { r.Header.Set("Authorization", "Bearer unknown") })
	refused("known token without rights", `cannot list`, func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+s.token("default", "default"))
	})
	s.bind("system:serviceaccount:default:default", "cluster1", "manifestworks-view")
	token := s.token("default", "default")
	e2etest.Eventually(t, "a token is accepted", func() error {
		body, err := s.direct(worksPath, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
		if err == nil && !strings.Contains(body, `"kind":"ManifestWorkList"`) {
			err = fmt.Errorf("the body is %s", body)
		}
		return err
	})
}

// testImpersonation checks that only users with the right to impersonate act as others.
func testImpersonation(t *testing.T, s *scene, alice *rest.Config) {
	admin := s.cluster.Config()
	admin.Impersonate.UserName = "alice"
	list := func(config *rest.Config, namespace string) error {
		_, err := workclientset.NewForConfigOrDie(config).WorkV1().ManifestWorks(namespace).List(t.Context(),
			metav1.ListOptions{})
		return err
	}
	err := list(admin, "cluster2")
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"alice"`) {
		t.Errorf("list of cluster2 as alice: %v, want Forbidden for alice", err)
	}
	alice = rest.CopyConfig(alice)
	alice.Impersonate.UserName, alice.Impersonate.Groups = "admin", []string{"system:masters"}
	err = list(alice, "cluster1")
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "impersonate") {
		t.Errorf("impersonation by alice: %v, want Forbidden", err)
	}
	token := s.token("default", "default")
	if _, err := s.direct(worksPath, func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Impersonate-User", "admin")
	}); err == nil || !strings.Contains(err.Error(), "impersonate") {
		t.Errorf("impersonation at the server: %v, want Forbidden", err)
	}
}

// policy is a ValidatingAdmissionPolicy for works, with its binding.
const policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: works}
spec:
  matchConstraints:
    resourceRules:
    - apiGroups: [work.open-cluster-management.io]
      apiVersions: [v1]
      operations: [CREATE, UPDATE, DELETE]
      resources: [manifestworks]
  validations:
  - expression: "request.operation == 'DELETE' || !object.metadata.name.startsWith('refused')"
    message: the policy refuses this name
  - expression: "request.operation != 'DELETE' || !oldObject.metadata.name.startsWith('kept')"
    message: the policy keeps this work
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: works}
spec: {policyName: works, validationActions: [Deny]}
`

// testAdmission checks that works must fulfil the admission policies of the cluster.
func testAdmission(t *testing.T, s *scene) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	s.kubectl("apply", "-f", file)
	client, attempt := workclientset.NewForConfigOrDie(s.cluster.Config()), 0
	e2etest.Eventually(t, "the policy is in force", func() error {
		attempt++
		err := s.create(client, "cluster1", fmt.Sprint("refused-", attempt))
		if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "the policy refuses this name") {
			return nil
		}
		return fmt.Errorf("create returns %w", err)
	})
	generated := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{GenerateName: "refused-generated-"}}
	_, err := s.works("cluster1").Create(t.Context(), generated, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "the policy refuses this name") {
		t.Errorf("create with a generateName: %v, want the refusal of the policy", err)
	}
	if err := s.create(client, "cluster1", "kept"); err != nil {
		t.Error(err)
	}
	err = s.works("cluster1").Delete(t.Context(), "kept", metav1.DeleteOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "the policy keeps this work") {
		t.Errorf("delete: %v, want the refusal of the policy", err)
	}
}

// testAudit checks that the log has the request of the test of roles.
func testAudit(t *testing.T, s *scene, file string) {
	type record struct {
		Verb, Stage    string
		User           struct{ Username string }
		ObjectRef      struct{ Resource, Namespace, Name, APIGroup string }
		ResponseStatus struct{ Code int }
	}
	e2etest.Eventually(t, "the log has the request", func() error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			var r record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				return err
			}
			if r.Verb == "create" && r.Stage == "ResponseComplete" && r.User.Username == "alice" &&
				r.ObjectRef.Resource == "manifestworks" && r.ObjectRef.Namespace == "cluster1" &&
				r.ResponseStatus.Code == http.StatusCreated {
				return nil
			}
		}
		return fmt.Errorf("no record in %d bytes", len(text))
	})
}

// testMetrics checks the paths for probes, which need no credentials, and the metrics, which do.
func testMetrics(t *testing.T, s *scene) {
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		if body, err := s.direct(path, nil); err != nil || body != "ok" {
			t.Errorf("%s: %q, %v; want ok", path, body, err)
		}
	}
	if _, err := s.direct("/metrics", nil); err == nil || !strings.Contains(err.Error(), "403 Forbidden") {
		t.Errorf("/metrics without credentials: %v, want Forbidden", err)
	}
	s.bindCluster("system:monitoring", "default")
	token := s.token("default", "default")
	e2etest.Eventually(t, "/metrics", func() error {
		body, err := s.direct("/metrics", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
		for _, want := range []string{
			`apiserver_request_total{code="201",component="apiserver",dry_run="",group="work.open-cluster-management.io",` +
				`resource="manifestworks",scope="resource",subresource="",verb="POST",version="v1"}`,
			"apiserver_flowcontrol_dispatched_requests_total{",
			"apiserver_admission_controller_admission_duration_seconds_count{",
			`cloudevents_connected{client="hub"`,
		} {
			if err == nil && !strings.Contains(body, want) {
				lines := slices.DeleteFunc(strings.Split(body, "\n"), func(line string) bool {
					name, _, _ := strings.Cut(want, "{")
					return !strings.HasPrefix(line, name) && !strings.HasPrefix(line, "cloudevents")
				})
				err = fmt.Errorf("no %s in %s", want, strings.Join(lines, "\n"))
			}
		}
		return err
	})
}

// serial returns the serial number of the certificate that the server presents.
func (s *scene) serial() (string, error) {
	conn, err := tls.Dial("tcp", s.address(),
		&tls.Config{RootCAs: s.ca.Pool(), MinVersion: tls.VersionTLS12})
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

// TestCertificateReload checks that the server presents a replaced certificate without a restart.
func TestCertificateReload(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	before, err := s.serial()
	if err != nil {
		t.Fatal(err)
	}
	want := s.issue("renewed").Certificate.Leaf.SerialNumber.String()
	if before == want {
		t.Fatalf("the new certificate has the serial number of the old one, %s", before)
	}
	e2etest.Eventually(t, "the new certificate is served", func() error {
		got, err := s.serial()
		if err == nil && got != want {
			err = fmt.Errorf("the serial number is %s, want %s", got, want)
		}
		return err
	})
	s.available()
}
