// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package install_test runs the command install of the programs on a real API server, and the
// programs with the rights that it gives them.
package install_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

const namespace = "spokewire"

func TestMain(m *testing.M) { os.Exit(e2etest.Main(m)) }

// site is a cluster in which programs are installed.
type site struct {
	t       *testing.T
	cluster *kube.Cluster
	core    *kubernetes.Clientset // with all rights
	audit   string                // the log of all requests
}

// newSite starts a cluster with feature gates of the API server.
func newSite(t *testing.T, gates ...string) *site {
	t.Helper()
	folder := t.TempDir()
	policy := filepath.Join(folder, "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\n"+
		"omitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, audit: filepath.Join(folder, "audit.log")}
	s.cluster = kube.Start(t, kube.Options{
		CRDs: []string{"testdata/monitoring.yaml"},
		APIServerFlags: map[string][]string{
			"audit-policy-file": {policy}, "audit-log-path": {s.audit}, "audit-log-mode": {"blocking"},
			"enable-admission-plugins": {"OwnerReferencesPermissionEnforcement"}, "feature-gates": gates,
		},
	})
	s.core = kubernetes.NewForConfigOrDie(s.cluster.Config())
	return s
}

// command runs a program, and returns its output.
func command(t *testing.T, program string, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := exec.Command(e2etest.Program(t, program, false), args...)
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	err = cmd.Run()
	return out.String() + errors.String(), err
}

// install applies the manifests of a program.
func (s *site) install(program string, args ...string) string {
	s.t.Helper()
	args = append([]string{"install", "--apply", "--kubeconfig", s.cluster.Kubeconfig(), "--image", "registry.example/" +
		program + ":v1"}, args...)
	out, err := command(s.t, program, args...)
	if err != nil {
		s.t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return out
}

// apply applies a file with kubectl.
func (s *site) apply(file string, flags ...string) {
	s.t.Helper()
	out, err := exec.Command(kube.Program(s.t, "kubectl"), append([]string{"apply", "--kubeconfig",
		s.cluster.Kubeconfig(), "-f", file}, flags...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
}

// deployment returns the Deployment of a program.
func (s *site) deployment(program string) *appsv1.Deployment {
	s.t.Helper()
	d, err := s.core.AppsV1().Deployments(namespace).Get(s.t.Context(), program, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// account returns a kubeconfig of the ServiceAccount of a program, with a token as in a Pod.
func (s *site) account(program string) string {
	s.t.Helper()
	token, err := s.core.CoreV1().ServiceAccounts(namespace).CreateToken(s.t.Context(), program,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	config := s.cluster.Config()
	config.CertData, config.KeyData, config.BearerToken = nil, nil, token.Status.Token
	return kube.WriteKubeconfig(s.t, config)
}

// requests returns the requests of the ServiceAccount of a program, also those with impersonation.
func (s *site) requests(program string) (all []auditv1.Event) {
	s.t.Helper()
	log, err := os.ReadFile(s.audit)
	if err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, len(log)+1)
	for lines.Scan() {
		var e auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			s.t.Fatalf("%v: %s", err, lines.Bytes())
		}
		if e.User.Username == "system:serviceaccount:"+namespace+":"+program {
			all = append(all, e)
		}
	}
	return all
}

// checkRights fails the test if a request of a program was denied, or if no request needed a right
// of its roles.
func (s *site) checkRights(program string, roles ...string) {
	s.t.Helper()
	used := map[string]bool{}
	for _, e := range s.requests(program) {
		if e.ResponseStatus != nil && e.ResponseStatus.Code == 403 {
			s.t.Errorf("denied: %s %s as %+v: %s", e.Verb, e.RequestURI, e.ImpersonatedUser, e.ResponseStatus.Message)
		}
		if e.ImpersonatedUser != nil {
			used["impersonate//serviceaccounts"] = true
			continue
		}
		if o := e.ObjectRef; o != nil {
			resource := strings.TrimSuffix(o.Resource+"/"+o.Subresource, "/")
			used[e.Verb+"/"+o.APIGroup+"/"+resource], used[e.Verb+"/*/*"] = true, true
		}
	}
	for _, role := range roles {
		r, err := s.core.RbacV1().ClusterRoles().Get(s.t.Context(), role, metav1.GetOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, rule := range r.Rules {
			for _, right := range product(rule.Verbs, rule.APIGroups, rule.Resources) {
				if !used[right] {
					s.t.Errorf("%s has the right %s, and does not use it", role, right)
				}
			}
		}
	}
}

func product(verbs, groups, resources []string) (all []string) {
	for _, v := range verbs {
		for _, g := range groups {
			for _, r := range resources {
				all = append(all, v+"/"+g+"/"+r)
			}
		}
	}
	return slices.Compact(all)
}
