// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"hash/maphash"
	"sync"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
)

// journal records the results of works, each failure and each recovery once: in the log, and as
// Events of the AppliedWork. Its methods may be called concurrently.
type journal struct {
	log    klog.Logger
	events func(e controller.Event, reason, message string) // must not block
	seed   maphash.Seed

	mu     sync.Mutex
	failed map[string]uint64 // the hash of the last error, by the work
}

func newJournal(log klog.Logger, events func(e controller.Event, reason, message string)) *journal {
	return &journal{log: log, events: events, seed: maphash.MakeSeed(), failed: map[string]uint64{}}
}

// record records a result. While the API server is away, only the log of the API server has it.
func (j *journal) record(e controller.Event) {
	log := j.log.WithValues("work", e.Work)
	if e.Application != "" {
		log = log.WithValues("application", e.Application)
	}
	if e.Generation != 0 { // the hub has the work
		log = log.WithValues("generation", e.Generation)
	}
	if e.Err != nil && spoke.Away(e.Err) {
		log.V(1).Info("Failed to apply a work, retrying", "reason", e.Err)
		return
	}
	again, recovered := j.changes(e)
	switch {
	case again:
	case e.Err != nil && e.Generation == 0:
		log.Error(e.Err, "Failed to remove the objects of a work that the hub does not have")
		j.events(e, spoke.EventFailed, e.Err.Error())
	case e.Err != nil:
		log.Error(e.Err, "Failed to apply a work, retrying")
		j.events(e, spoke.EventFailed, e.Err.Error())
	case e.Deleted:
		log.Info("Removed a work, its objects are deleted or orphaned")
	case recovered:
		log.Info("Recovered a work")
		j.events(e, spoke.EventRecovered, "all manifests are applied again")
	case e.Changed:
		log.Info("Applied a work")
	}
}

// changes reports whether a work fails again for the same reason, and whether it has recovered.
func (j *journal) changes(e controller.Event) (again, recovered bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	was, failed := j.failed[e.Work]
	if e.Err == nil {
		delete(j.failed, e.Work)
		return false, failed
	}
	now := maphash.String(j.seed, e.Err.Error())
	j.failed[e.Work] = now
	return failed && was == now, false
}
