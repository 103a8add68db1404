// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/conformance"
)

var update = flag.Bool("update", false, "write what the API server does to internal/testing/conformance/testdata")

// TestConformanceOracle runs the conformance scripts on a real API server through the generated
// clientset. Its transcripts are the reference for package work. The garbage collector runs as in
// any cluster: it completes deletions with propagation.
//
// The scripts run in parallel, each in its own namespaces, except the scripts that make the API
// server forget its history.
func TestConformanceOracle(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t, kube.Options{CRDs: []string{kube.ManifestWorkCRDs(t)}})
	cluster.StartControllerManager()
	var mu sync.Mutex
	got := map[string][]string{}
	run := func(t *testing.T, s conformance.Script) {
		t.Helper()
		lines := conformance.Run(t.Context(), realTarget(t, cluster), s)
		mu.Lock()
		defer mu.Unlock()
		got[s.Name] = lines
	}
	t.Run("scripts", func(t *testing.T) { // ends after all scripts
		for _, s := range conformance.All {
			if !s.Ages {
				t.Run(s.Name, func(t *testing.T) {
					t.Parallel()
					run(t, s)
				})
			}
		}
	})
	for _, s := range conformance.All {
		if s.Ages {
			run(t, s)
		}
	}
	if *update {
		const golden = "../testing/conformance/testdata/apiserver.txt"
		if err := os.WriteFile(golden, []byte(conformance.Format(got)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := conformance.Golden()
	for _, s := range conformance.All {
		if diff := cmp.Diff(want[s.Name], got[s.Name]); diff != "" {
			t.Errorf("%s: the API server does something else than the transcript says; run with -update (-want +got):\n%s",
				s.Name, diff)
		}
	}
}

// TestRivalsOracle runs the test bodies with many concurrent clients on a real API server. They
// must also pass there, or they would demand more than a drop-in replacement. The rounds are fewer:
// a request takes milliseconds there, because of TLS and etcd's log, but microseconds with our
// clientset.
func TestRivalsOracle(t *testing.T) {
	t.Parallel()
	target := realTarget(t, kube.Shared(t))
	for _, r := range conformance.Rivalries {
		t.Run(r.Name, func(t *testing.T) {
			if err := r.Run(t.Context(), target.Hub.ManifestWorks(target.Namespace()), max(10, r.Rounds/50)); err != nil {
				t.Error(err)
			}
		})
	}
}

// realTarget runs one script on a cluster.
func realTarget(t *testing.T, cluster *kube.Cluster) conformance.Target {
	t.Helper()
	core, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	config := cluster.Config()
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return impatient{rt} })
	works, err := workclientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var namespaces []string
	return conformance.Target{
		Hub: works.WorkV1(), Spoke: works.WorkV1(),
		Namespace: func() string {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: fmt.Sprintf("conformance-%d-", len(namespaces))}}
			ns, err := core.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			namespaces = append(namespaces, ns.Name)
			return ns.Name
		},
		Settle: func() {
			for _, ns := range namespaces {
				eventually(t, "the garbage collector is done",
					func() error { return collected(t, works.WorkV1().ManifestWorks(ns)) })
			}
		},
		Age: func() {
			cluster.StopControllerManager() // otherwise the API server would wait for its watches
			cluster.Forget()
			cluster.StartControllerManager()
			eventually(t, "the API server is back", func() error {
				_, err := works.WorkV1().ManifestWorks("").List(t.Context(), metav1.ListOptions{})
				return err
			})
		},
	}
}

// impatient removes the header that makes a client repeat a request ten times before it returns an
// error. The error itself still contains the delay.
type impatient struct{ http.RoundTripper }

func (i impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := i.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Header.Del("Retry-After")
	}
	return response, err
}

// collected returns an error while a deletion waits for the garbage collector.
func collected(t *testing.T, works works) error {
	t.Helper()
	list, err := works.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		w := &list.Items[i]
		if w.DeletionTimestamp == nil {
			continue
		}
		for _, f := range []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents} {
			if slices.Contains(w.Finalizers, f) {
				return fmt.Errorf("%s/%s has the finalizer %s", w.Namespace, w.Name, f)
			}
		}
	}
	return nil
}
