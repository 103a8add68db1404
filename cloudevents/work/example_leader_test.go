// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// addSource makes a manager start and probe a source. A manager with leader election starts the
// source after its election. Until then the replica stands by and reports ready. The same applies
// to agents.
func addSource(mgr ctrl.Manager, source *work.Source) error {
	return errors.Join(
		mgr.Add(source),
		mgr.AddHealthzCheck("manifestworks", source.Livez),
		mgr.AddReadyzCheck("manifestworks", func(r *http.Request) error {
			select {
			case <-mgr.Elected():
				return source.Readyz(r)
			default:
				return nil
			}
		}),
	)
}

// Replicas that stand by in a leader election have a source that is not started. They must still be
// ready: a rolling update ends the old pods when the new pods are ready.
func Example_leaderElection() {
	lease := &memoryLease{} // instead of a Lease on the cluster
	pod := func(name string) (mgr *probedManager, stop func()) {
		mgr = must(newManager(lease, name))
		source := must(work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"}))
		if err := addSource(mgr, source); err != nil {
			fmt.Println(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		mgr.run(ctx)
		return mgr, func() {
			cancel()
			if err := <-mgr.stopped; err != nil {
				fmt.Println(err)
			}
		}
	}
	old, stopOld := pod("old")
	<-old.Elected()
	updated, stop := pod("new")
	fmt.Println("the new pod stands by:", updated.readyz(nil))
	stopOld()
	<-updated.Elected()
	fmt.Println("the new pod leads")
	stop()
	// Output:
	// the new pod stands by: <nil>
	// the new pod leads
}
