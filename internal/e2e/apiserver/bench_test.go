// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// listed is the number of works of a list.
const listed = 500

// BenchmarkAPI compares the aggregated API of the example with the CRD in the same cluster. The API
// server of the cluster forwards the requests for the aggregated API; "direct" requests go to its
// server. It reports the 50th and the 99th percentile of the latency in microseconds.
func BenchmarkAPI(b *testing.B) {
	crd := filepath.Join(kube.ManifestWorkCRDs(b), "0000_00_work.open-cluster-management.io_manifestworks.crd.yaml")
	// The store is in memory, because envtest's etcd does not sync its files.
	store, err := os.MkdirTemp("/dev/shm", "work-apiserver-") //nolint:usetesting // as above
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(store) })
	s := unregistered(b, false, []string{crd}, "--store", store)
	measure(b, s, "crd", s.cluster.Config())
	s.kubectl("label", "apiservice", "v1.work.open-cluster-management.io", "kube-aggregator.kubernetes.io/automanaged-")
	s.kubectl("apply", "-f", s.registration())
	for deadline := time.Now().Add(startTime); ; time.Sleep(time.Second) { // until the CRD is hidden
		if list, err := s.works("cluster1").List(b.Context(), metav1.ListOptions{}); err == nil && len(list.Items) == 0 {
			break
		}
		if time.Now().After(deadline) {
			b.Fatal("the aggregated API does not replace the CRD")
		}
	}
	measure(b, s, "aggregated", s.cluster.Config())
	s.bindCluster("manifestworks-edit", "bench")
	direct := &rest.Config{
		Host: "https://" + s.address(), QPS: -1, BearerToken: s.token("default", "bench"),
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte(s.ca.PEM)},
	}
	measure(b, s, "direct", direct)
}

// measure runs the verbs through one API.
func measure(b *testing.B, s *scene, api string, config *rest.Config) {
	b.Helper()
	client := workclientset.NewForConfigOrDie(config)
	works := client.WorkV1().ManifestWorks("cluster1")
	for i := range listed {
		name := fmt.Sprint("w", i)
		if _, err := works.Get(b.Context(), name, metav1.GetOptions{}); err == nil {
			break // of an earlier API of the same server
		}
		if err := s.create(client, "cluster1", name); err != nil {
			b.Fatal(err)
		}
	}
	for _, verb := range []struct {
		name string
		call func(worktyped.ManifestWorkInterface, int) error
	}{
		{"get", func(w worktyped.ManifestWorkInterface, i int) error {
			_, err := w.Get(b.Context(), fmt.Sprint("w", i%listed), metav1.GetOptions{})
			return err
		}},
		{"list", func(w worktyped.ManifestWorkInterface, _ int) error {
			list, err := w.List(b.Context(), metav1.ListOptions{})
			if err == nil && len(list.Items) != listed {
				err = fmt.Errorf("the list has %d works", len(list.Items))
			}
			return err
		}},
		{"patch", func(w worktyped.ManifestWorkInterface, i int) error {
			_, err := patch(b)(w, i)
			return err
		}},
	} {
		b.Run(api+"/"+verb.name, func(b *testing.B) {
			latency(b, func(i int) error { return verb.call(works, i) })
		})
	}
	b.Run(api+"/watch", func(b *testing.B) {
		list, err := works.List(b.Context(), metav1.ListOptions{Limit: 1})
		if err != nil {
			b.Fatal(err)
		}
		watch, err := works.Watch(b.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			b.Fatal(err)
		}
		defer watch.Stop()
		write := patch(b)
		latency(b, func(i int) error { // from the begin of the write to its event
			w, err := write(works, i)
			if err != nil {
				return err
			}
			for event := range watch.ResultChan() {
				if seen, ok := event.Object.(*workv1.ManifestWork); ok && seen.ResourceVersion == w.ResourceVersion {
					return nil
				}
			}
			return errors.New("the watch has ended")
		})
	})
}

// patch changes a label of a work.
func patch(b *testing.B) func(worktyped.ManifestWorkInterface, int) (*workv1.ManifestWork, error) {
	begin := time.Now().UnixNano()
	return func(w worktyped.ManifestWorkInterface, i int) (*workv1.ManifestWork, error) {
		return w.Patch(b.Context(), fmt.Sprint("w", i%listed), "application/merge-patch+json",
			fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, begin+int64(i)), metav1.PatchOptions{})
	}
}

// latency calls a function in a loop, and reports percentiles of its duration.
func latency(b *testing.B, call func(int) error) {
	var all []time.Duration
	for b.Loop() {
		begin := time.Now()
		if err := call(len(all)); err != nil {
			b.Fatal(err)
		}
		all = append(all, time.Since(begin))
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
}
