// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
)

// TestAbandonedRequestsLogNothing ends requests that wait for the initial sync of an agent, as at
// the end of a manager. The handlers must not log that they cannot write.
func TestAbandonedRequestsLogNothing(t *testing.T) {
	var mu sync.Mutex
	var logged []error
	before := utilruntime.ErrorHandlers
	t.Cleanup(func() { utilruntime.ErrorHandlers = before })
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, _ string, _ ...any) {
		mu.Lock()
		defer mu.Unlock()
		logged = append(logged, err)
	}}
	agent := must(work.NewAgent(memory.New().Transport(),
		work.AgentOptions{ClusterName: "cluster1", Sources: []string{"hub"}}))
	c := must(client.New(must(restconfig.FromAgent(agent)), client.Options{Scheme: scheme}))
	running := goleak.IgnoreCurrent()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.List(ctx, &workv1.ManifestWorkList{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the list returned %v", err)
	}
	goleak.VerifyNone(t, running) // waits until the handler has returned
	mu.Lock()
	defer mu.Unlock()
	if len(logged) > 0 {
		t.Errorf("the handler logged %v", logged)
	}
}
