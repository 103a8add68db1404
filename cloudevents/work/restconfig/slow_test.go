// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
)

const worksPath = "/apis/work.open-cluster-management.io/v1/namespaces/cluster1/manifestworks"

// open sends a GET. The test may read the body of the response.
func open(t testing.TB, config *rest.Config, path string) io.ReadCloser {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, response.Status)
	}
	return response.Body
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// TestSlowWatches: 950 of 1,000 watches do not read. They delay neither writers nor the others, and
// keep a bounded amount of memory.
func TestSlowWatches(t *testing.T) {
	const watches, readers, works, size = 1000, 50, 40, 10 << 10
	source := newSource(t)
	config := configOf(t, source)
	before := heap()
	var reading sync.WaitGroup
	var silent []io.ReadCloser
	for i := range watches {
		body := open(t, config, worksPath+"?watch=true")
		if i >= readers {
			silent = append(silent, body)
			continue
		}
		reading.Go(func() {
			defer func() { _ = body.Close() }()
			stream := json.NewDecoder(body)
			for j := 0; j < works; {
				var e struct {
					Type   string
					Object metav1.PartialObjectMetadata
				}
				err := stream.Decode(&e)
				if err == nil && e.Type == "MODIFIED" {
					continue // no agent has confirmed the work within 30 s
				}
				if err != nil || e.Type != "ADDED" || e.Object.Name != fmt.Sprint("w", j) {
					t.Errorf("reader %d, event %d: %v %s %s", i, j, err, e.Type, e.Object.Name)
					return
				}
				j++
			}
		})
	}
	client := source.Clientset().WorkV1().ManifestWorks("cluster1")
	for i := range works {
		w := manifestWork(fmt.Sprint("w", i))
		w.Annotations = map[string]string{"a": strings.Repeat("x", size)}
		if _, err := client.Create(t.Context(), w, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	reading.Wait()
	// The events are in a buffer of each watch, and once more in its encoder. Pending events share
	// the objects of the source.
	if each := int64(heap()-before) / watches; each > 5*restconfig.BufferBytes {
		t.Errorf("a watch that does not read keeps %d bytes", each)
	} else {
		t.Logf("a watch that does not read keeps %d bytes", each)
	}
	for _, body := range silent {
		_ = body.Close()
	}
}

// TestSlowWatchExpires: a watch that has too many pending events ends with the error Expired, so
// the client lists again.
func TestSlowWatchExpires(t *testing.T) {
	source, err := work.NewSource(memory.New().Transport(),
		work.SourceOptions{SourceID: "hub", WatchCacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	body := open(t, configOf(t, source), worksPath+"?watch=true")
	defer func() { _ = body.Close() }()
	client := source.Clientset().WorkV1().ManifestWorks("cluster1")
	if _, err := client.Create(t.Context(), manifestWork("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range 60 { // 3 MB
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"a":"%d%s"}}}`, i, strings.Repeat("x", 50<<10))
		if _, err := client.Patch(t.Context(), "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var last struct {
		Type   string
		Object json.RawMessage
	}
	events := 0
	for stream := json.NewDecoder(body); ; events++ {
		if err := stream.Decode(&last); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	var status metav1.Status
	if err := json.Unmarshal(last.Object, &status); err != nil || last.Type != "ERROR" ||
		status.Reason != metav1.StatusReasonExpired || events > 30 {
		t.Errorf("%v, after %d events: %s %+v", err, events, last.Type, status)
	}
}

// TestInterruptedRequests ends many requests at random moments. Package goleak finds goroutines that stay.
func TestInterruptedRequests(t *testing.T) {
	source := newSource(t)
	config := configOf(t, source)
	c, err := workclientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	client := c.WorkV1().ManifestWorks("cluster1")
	large := manifestWork("a")
	large.Annotations = map[string]string{"a": strings.Repeat("x", 100<<10)}
	if _, err := client.Create(t.Context(), large, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for worker := range 20 {
		random := rand.New(rand.NewSource(int64(worker)))
		running.Go(func() {
			for i := range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.Intn(3000))*time.Microsecond)
				switch i % 5 { // the errors depend on the moment
				case 0:
					_, _ = client.List(ctx, metav1.ListOptions{})
				case 1:
					if w, err := client.Watch(ctx, metav1.ListOptions{}); err == nil {
						<-w.ResultChan()
						w.Stop()
					}
				case 2:
					patch := fmt.Sprintf(`{"metadata":{"labels":{"a":"%d"}}}`, random.Int())
					_, _ = client.Patch(ctx, "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				case 3:
					_ = open(t, config, worksPath).Close()
				case 4:
					body := open(t, config, worksPath+"?watch=true")
					_, _ = io.ReadFull(body, make([]byte, random.Intn(1000)))
					_ = body.Close()
				}
				cancel()
			}
		})
	}
	running.Wait()
	if _, err := client.Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
