// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// TestStoreHangsAtTheEnd: when the Store hangs, Start returns in a bounded time, the writes in
// progress fail, and the log names the changes that are not stored.
func TestStoreHangsAtTheEnd(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		drain        time.Duration
		want         time.Duration
	}{
		{"default", "5 s more than the outbox", 0, work.DefaultDrainTimeout + 5*time.Second},
		{"long", "5 s more than the outbox", 10 * time.Second, 15 * time.Second},
		{"none", "negative means not at all", -1, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				store := newFaultyStore()
				source, err := work.NewSource(s.bus.Transport(), work.SourceOptions{SourceID: "hub", Store: store, DrainTimeout: tc.drain})
				if err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
				ctx, stop := context.WithCancel(klog.NewContext(s.t.Context(), logger))
				ended := make(chan error, 1)
				go func() { ended <- source.Start(ctx) }()
				s.settle()
				store.stall() // until the end of the test
				written := make(chan error, 1)
				go func() {
					_, err := source.Clientset().WorkV1().ManifestWorks("cluster1").Create(s.t.Context(), newWork("app", "1"), metav1.CreateOptions{})
					written <- err
				}()
				synctest.Wait()
				began := time.Now()
				stop()
				if err := <-ended; err != nil {
					t.Errorf("Start: %v", err)
				}
				if took := time.Since(began); took > tc.want {
					t.Errorf("Start ended after %v, want %v: %s", took, tc.want, tc.reason)
				}
				if err := <-written; err == nil || !strings.Contains(err.Error(), "not stored") {
					t.Errorf("the write under way: %v", err)
				}
				if !strings.Contains(log.String(), "Stopped with changes that are not stored") || !strings.Contains(log.String(), "records=") {
					t.Errorf("the log: %s", log.String())
				}
			})
		})
	}
}
