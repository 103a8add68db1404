// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/internal/conformance"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

var update = flag.Bool("update", false, "write what the API server does to internal/conformance/testdata")

// TestConformanceOracle runs the conformance scripts on a real API server through the generated clientset: the
// transcripts that package work is held against are these.
func TestConformanceOracle(t *testing.T) {
	cluster := kube.Start(t, kube.Options{CRDs: []string{kube.ManifestWorkCRDs(t)}})
	core, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	works, err := workclientset.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	namespaces := 0
	target := conformance.Target{
		Hub: works.WorkV1(), Spoke: works.WorkV1(),
		Namespace: func() string {
			namespaces++
			name := fmt.Sprintf("conformance-%03d", namespaces)
			_, err := core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return name
		},
		Settle: func() {},
	}
	got := map[string][]string{}
	for _, s := range conformance.All {
		got[s.Name] = conformance.Run(t.Context(), target, s)
	}
	if *update {
		if err := os.WriteFile("../conformance/testdata/apiserver.txt", []byte(conformance.Format(got)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := conformance.Golden()
	for _, s := range conformance.All {
		if diff := cmp.Diff(want[s.Name], got[s.Name]); diff != "" {
			t.Errorf("%s: the API server does something else than the transcript says; run with -update (-want +got):\n%s", s.Name, diff)
		}
	}
}
