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

// TestConformanceOracle runs the conformance scripts on a real API server through the generated clientset: the
// transcripts that package work is held against are these. The garbage collector runs as in any cluster: without
// it, nothing that is deleted with propagation would ever be gone.
//
// The scripts run at the same time, each in namespaces of its own, but for those after which the API server has
// forgotten what was.
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
	t.Run("scripts", func(t *testing.T) { // ends when all have
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
			t.Errorf("%s: the API server does something else than the transcript says; run with -update (-want +got):\n%s", s.Name, diff)
		}
	}
}

// TestRivalsOracle runs on a real API server the bodies in which many clients work on the same objects. They must
// hold there too, or they would ask for something else than a drop-in. The rounds are fewer: each request takes
// milliseconds there, on its way through TLS and etcd's log, where ours takes microseconds.
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
				eventually(t, "the garbage collector is done", func() error { return collected(t, works.WorkV1().ManifestWorks(ns)) })
			}
		},
		Age: func() {
			cluster.StopControllerManager() // the API server would wait for its watches
			cluster.Forget()
			cluster.StartControllerManager()
			eventually(t, "the API server is back", func() error {
				_, err := works.WorkV1().ManifestWorks("").List(t.Context(), metav1.ListOptions{})
				return err
			})
		},
	}
}

// impatient takes the header away that makes a client ask again, ten times, before it returns an error. The
// error itself still tells how long to wait.
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
