// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// BenchmarkAppliedWorkSurvey lists untracked objects on a cluster with many ConfigMaps of 4 KiB.
// The name of the sub-benchmark is their number. It reads whole objects or only metadata.
func BenchmarkAppliedWorkSurvey(b *testing.B) {
	config := kube.Start(b, kube.Options{}).Config()
	config.QPS = -1
	client := dynamic.NewForConfigOrDie(config)
	if err := v1alpha1.EnsureCRD(b.Context(), client.Resource(v1alpha1.CRDResource)); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for i := range n {
				obj := configMapOf("default", fmt.Sprintf("of-%d-%d", n, i), strings.Repeat("x", 4096))
				if _, err := client.Resource(configMaps).Namespace("default").Create(b.Context(), obj,
					metav1.CreateOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			b.Run("objects", func(b *testing.B) { survey(b, rest.CopyConfig(config), false) })
			b.Run("metadata", func(b *testing.B) { survey(b, rest.CopyConfig(config), true) })
		})
	}
}

// survey runs one survey after the other, each as a new process with an empty cache.
func survey(b *testing.B, config *rest.Config, slim bool) {
	m := &traffic{}
	config.Wrap(m.wrap)
	o := appliedwork.Options{Client: dynamic.NewForConfigOrDie(config),
		Discovery: discovery.NewDiscoveryClientForConfigOrDie(config)}
	if slim {
		o.Metadata = metadata.NewForConfigOrDie(config)
	}
	b.ReportAllocs()
	for b.Loop() {
		tracker, err := appliedwork.NewTracker(o)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := appliedwork.NewCollector(tracker).Survey(b.Context(), appliedwork.SurveyOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(m.requests.Load())/float64(b.N), "requests/op")
	b.ReportMetric(float64(m.bytes.Load())/float64(b.N)/1024, "received-KiB/op")
}

// traffic counts requests and received bytes.
type traffic struct{ requests, bytes atomic.Int64 }

// wrap returns a transport that counts its requests. It is an argument of [rest.Config.Wrap].
func (m *traffic) wrap(next http.RoundTripper) http.RoundTripper { return &countedTransport{next, m} }

type countedTransport struct {
	http.RoundTripper
	traffic *traffic
}

func (c *countedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	c.traffic.requests.Add(1)
	response, err := c.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = &countedBody{response.Body, &c.traffic.bytes}
	}
	return response, err
}

// WrappedRoundTripper lets client-go close idle connections.
func (c *countedTransport) WrappedRoundTripper() http.RoundTripper { return c.RoundTripper }
