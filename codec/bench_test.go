// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
)

// specCases returns works with one manifest of a given size in bytes, and a work with many
// manifests.
func specCases() []*codec.Spec {
	return []*codec.Spec{benchSpec(1 << 10), benchSpec(16 << 10), benchSpec(256 << 10), benchSpecs(100)}
}

// caseName describes a work by the number of its manifests and their size in bytes.
func caseName(m *codec.Spec) string {
	list := m.Work.Spec.Workload.Manifests
	return fmt.Sprintf("%dx%d", len(list), len(list[0].Raw))
}

func BenchmarkEncodeSpec(b *testing.B) {
	for _, m := range specCases() {
		b.Run(caseName(m), func(b *testing.B) { benchEncode(b, m) })
	}
}

func BenchmarkDecodeSpec(b *testing.B) {
	for _, m := range specCases() {
		b.Run(caseName(m), func(b *testing.B) { benchDecode(b, m) })
	}
}

func BenchmarkEncodeStatus(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchEncode(b, benchStatus(n)) })
	}
}

func BenchmarkDecodeStatus(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchDecode(b, benchStatus(n)) })
	}
}

// benchEncode encodes a message in structured mode, as a transport does: into a buffer that it
// reuses.
func benchEncode(b *testing.B, m codec.Message) {
	_, payload := structured(b, m)
	buf := make([]byte, 0, 2*len(payload))
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		_, e, err := codec.ManifestWork.Encode(m)
		if err != nil {
			b.Fatal(err)
		}
		if buf, err = codec.AppendStructured(buf[:0], e); err != nil {
			b.Fatal(err)
		}
	}
}

func benchDecode(b *testing.B, m codec.Message) {
	topic, payload := structured(b, m)
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		e, err := codec.ParseStructured(payload)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := codec.ManifestWork.Decode(topic, e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStatusHash(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			status := benchStatus(n).Status
			b.ReportAllocs()
			for b.Loop() {
				if _, err := codec.StatusHash(status); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkResourceID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		codec.ResourceID("mwrs-controller", "cluster1", "nginx")
	}
}

func BenchmarkSplitSpecResync(b *testing.B) {
	for _, n := range []int{1, 1000, 10000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := benchSpecResync(n)
			b.ReportAllocs()
			for b.Loop() {
				for _, chunk := range codec.SplitSpecResync(r, 0) {
					if _, _, err := codec.ManifestWork.Encode(chunk); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkDecodeSpecResync(b *testing.B) {
	benchDecode(b, codec.SplitSpecResync(benchSpecResync(10000), 0)[0])
}

// structured encodes a message to its topic and its bytes in structured mode.
func structured(tb testing.TB, m codec.Message) (string, []byte) {
	tb.Helper()
	topic, e, err := codec.ManifestWork.Encode(m)
	if err != nil {
		tb.Fatal(err)
	}
	payload, err := codec.AppendStructured(nil, e)
	if err != nil {
		tb.Fatal(err)
	}
	return topic, payload
}

// benchSpec makes a spec event with ten attributes in addition to the required attributes, and one
// ConfigMap.
func benchSpec(size int) *codec.Spec {
	const frame = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"default","labels":{"app":"web"}},"data":{}}`
	var data strings.Builder
	for i := 0; data.Len() < size-len(frame)-40; i++ {
		if i > 0 {
			data.WriteByte(',')
		}
		fmt.Fprintf(&data, `"key-%d":"some value of a usual length %d"`, i, i)
	}
	var m workv1.Manifest
	m.Raw = []byte(strings.Replace(frame, `"data":{}`, `"data":{`+data.String()+`}`, 1))
	work := &workv1.ManifestWork{}
	work.Generation = 3
	work.Labels = map[string]string{"app": "web"}
	work.CreationTimestamp = metav1.NewTime(time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC))
	work.Spec.Workload.Manifests = []workv1.Manifest{m}
	return &codec.Spec{
		Header: codec.Header{
			ID: "748d04ad-887a-44dd-b788-da1373227072", Time: time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.UTC),
			Source: "mwrs-controller", Cluster: "cluster1",
		},
		WorkRef: codec.WorkRef{
			ResourceID: codec.ResourceID("mwrs-controller", "cluster1", "nginx"), Version: 1783432567890123456,
			UID: "0c1f2a55-6a55-4a1e-9d59-5f0d1c5b2f11", Name: "nginx",
		},
		AgentSession: "4f6c1f50-0a8e-4f52-8a4b-4a8b8d1b2c3d",
		StatusSeq:    1783432567890123400,
		Work:         work,
	}
}

// benchSpecs makes a spec event with n manifests of a typical size.
func benchSpecs(n int) *codec.Spec {
	m := benchSpec(1 << 10)
	list := &m.Work.Spec.Workload.Manifests
	for len(*list) < n {
		*list = append(*list, (*list)[0])
	}
	return m
}

// benchStatus makes a status event as work agents do, for a work with n manifests.
func benchStatus(n int) *codec.Status {
	now := metav1.NewTime(time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC))
	conditions := []metav1.Condition{
		{Type: "Applied", Status: "True", Reason: "AppliedManifestWorkComplete", Message: "Apply manifest work complete",
			LastTransitionTime: now, ObservedGeneration: 3},
		{Type: "Available", Status: "True", Reason: "ResourcesAvailable", Message: "All resources are available",
			LastTransitionTime: now, ObservedGeneration: 3},
	}
	m := &codec.Status{
		Header: codec.Header{ID: "7a3e", Time: now.Time, Source: "mwrs-controller", Cluster: "cluster1",
			Agent: "cluster1-work-agent"},
		WorkRef:    benchSpec(1024).WorkRef,
		SequenceID: 1783432567890123499,
		Status:     &workv1.ManifestWorkStatus{Conditions: conditions},
	}
	for i := range n {
		m.Status.ResourceStatus.Manifests = append(m.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
			ResourceMeta: workv1.ManifestResourceMeta{
				Ordinal: int32(i), Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Name: fmt.Sprint("settings-", i),
				Namespace: "shop",
			},
			Conditions: conditions,
		})
	}
	return m
}

func benchSpecResync(n int) *codec.SpecResync {
	r := &codec.SpecResync{
		Header: codec.Header{ID: "resync", Cluster: "cluster1", Agent: "cluster1-work-agent", ResyncID: "r-1"},
	}
	for i := range n {
		r.Entries = append(r.Entries, codec.SpecEntry{
			ResourceID: codec.ResourceID("mwrs-controller", "cluster1", fmt.Sprint("work-", i)), Version: 1783432567890123456,
			UID: "0c1f2a55-6a55-4a1e-9d59-5f0d1c5b2f11", Source: "mwrs-controller", SequenceID: 1783432567890123499,
		})
	}
	return r
}
