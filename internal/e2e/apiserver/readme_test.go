// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// commands returns the commands below a heading of the example's README.
func (s *scene) commands(heading string) string {
	s.t.Helper()
	readme, err := os.ReadFile(s.manifest("README.md"))
	if err != nil {
		s.t.Fatal(err)
	}
	_, section, found := strings.Cut(string(readme), "# "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n#")
	var out strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		out.WriteString(block[1])
	}
	if !found || out.Len() == 0 {
		s.t.Fatalf("README.md has no commands below %q", heading)
	}
	return strings.NewReplacer("go run ./examples/work-apiserver", e2etest.Program(s.t, "work-apiserver", s.race),
		"examples/work-apiserver", s.manifest(".")).Replace(out.String())
}

// script runs commands in the folder of the scene. kubectl waits longer than by default.
func (s *scene) script(commands ...string) string {
	s.t.Helper()
	text := "set -euo pipefail\ncd \"$HOME\"\n" + strings.ReplaceAll(strings.Join(commands, ""), "kubectl wait ",
		fmt.Sprintf("kubectl wait --timeout %s ", startTime))
	out, err := s.command(s.cluster.Kubeconfig(), "bash", "-c", text)
	if err != nil {
		s.t.Fatalf("%v\n%s\n%s", err, text, out)
	}
	return out
}

// TestInstallation runs the commands for the installation in a cluster. Its Deployment starts no
// pods, because there are no nodes.
func TestInstallation(t *testing.T) {
	t.Parallel()
	s := unregistered(t, true, nil)
	s.cluster.StartControllerManager(
		"--controllers=garbage-collector-controller,namespace-controller,clusterrole-aggregation-controller")
	for _, name := range []string{"broker-ca.crt", "source.crt", "source.key"} {
		if err := os.WriteFile(filepath.Join(s.folder, name), []byte(s.ca.PEM), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	install, wait, found := strings.Cut(s.commands("Install it in a cluster"), "kubectl wait ")
	if !found {
		t.Fatal("the commands do not wait")
	}
	s.script(strings.Replace(install, "kubectl create namespace "+system+"\n", "", 1)) // it exists
	s.kubectl("delete", "service", "-n", system, system)
	s.kubectl("delete", "apiservice", "v1.work.open-cluster-management.io")
	s.kubectl("apply", "-f", s.registration()) // the server of the test in place of that without pods
	s.script("kubectl wait ", wait)
	s.available()
	for file, host := range map[string]string{"ca.crt": "", "tls.crt": system + "." + system + ".svc"} {
		s.verify(file, host)
	}
	e2etest.Eventually(t, "the roles are aggregated", func() error {
		role, err := kubernetes.NewForConfigOrDie(s.cluster.Config()).RbacV1().ClusterRoles().Get(t.Context(), "edit",
			metav1.GetOptions{})
		if err == nil && !strings.Contains(fmt.Sprint(role.Rules), "manifestworks") {
			err = fmt.Errorf("edit has no right for works: %v", role.Rules)
		}
		return err
	})
	if out := s.script(s.commands("Rights")); !strings.HasSuffix(out, "\nyes\n") {
		t.Errorf("the commands for rights print %s, want yes at the end", out)
	}
}

// verify checks that a certificate in a file is signed by ca.crt, and valid for a host.
func (s *scene) verify(file, host string) {
	s.t.Helper()
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(s.folder, "ca.crt"))
	if err != nil || !roots.AppendCertsFromPEM(ca) {
		s.t.Fatalf("ca.crt: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(s.folder, file))
	if err != nil {
		s.t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		s.t.Fatalf("%s: no PEM", file)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		s.t.Fatalf("%s: %v", file, err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
		s.t.Errorf("%s: %v", file, err)
	}
}

// TestMoveFromCRD runs the commands for a cluster with the CRD of ManifestWork: first those that
// hide the CRD, and those that show it again, then those that move the works.
func TestMoveFromCRD(t *testing.T) {
	t.Parallel()
	s := unregistered(t, true, []string{filepath.Join(kube.ManifestWorkCRDs(t),
		"0000_00_work.open-cluster-management.io_manifestworks.crd.yaml")})
	client := workclientset.NewForConfigOrDie(s.cluster.Config())
	if err := s.create(client, "cluster1", "a"); err != nil {
		t.Fatal(err)
	}
	w, err := client.WorkV1().ManifestWorks("cluster1").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	event := s.webSocketEvent("cluster1", "a")
	w.Finalizers = []string{"example.com/cleanup"} // as agents set it
	if _, err := client.WorkV1().ManifestWorks("cluster1").Update(t.Context(), w, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.registration() // the commands apply this file
	// The API server uses a changed APIService some seconds later.
	expect := func(want string) string {
		return "for _ in $(seq 60); do [ \"$(kubectl get manifestworks -A -o name 2>&1)\" = '" + want +
			"' ] && break; sleep 1; done\nkubectl get manifestworks -A -o name\necho EXPECT '" + want + "'\n"
	}
	const name = "manifestwork.work.open-cluster-management.io/a"
	out := s.script(s.commands("Try the server without deleting the CRD"), expect(""),
		s.commands("Return to the CRD"), expect(name), s.commands("Move the works"), expect(name))
	for _, want := range []string{"condition met\nEXPECT \n", "deleted\n" + name + "\nEXPECT " + name + "\n",
		"created\n" + name + "\nEXPECT " + name + "\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q: %s", want, out)
		}
	}
	if got := s.webSocketEvent("cluster1", "a"); got != event {
		t.Errorf("a websocket delivers %s, with the CRD %s", got, event)
	}
	s.agent("cluster1")
	s.kubectl("wait", "--for=condition=Applied", "--timeout", startTime.String(), "-n", "cluster1", "manifestwork/a")
	moved, err := client.WorkV1().ManifestWorks("cluster1").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || moved.UID == w.UID || len(moved.Finalizers) > 0 {
		t.Errorf("the moved work is %v, %v; want a new one without finalizers", moved, err)
	}
}
