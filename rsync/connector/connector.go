// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package connector is the interface between the engine of package rsync and clusters. A driver
// implements it for a kind of cluster, and connector/connectortest tests the driver. connector/fake
// has clusters in memory.
//
// # What a driver does
//
// A driver executes each call once, and returns the result. The engine retries, waits until objects
// are ready or gone, orders apps and probes clusters. The class of an error decides how the engine
// continues:
//
//   - [ErrUnreachable]: the cluster or the network does not answer. The engine calls Probe, once
//     for all waiting apps, until the cluster answers.
//   - [ErrRetryable]: the cluster temporarily rejects the call: a conflict, an overload, or an
//     unreachable webhook. The engine retries after a backoff.
//   - [ErrTerminal]: the cluster permanently rejects the call: an invalid object, or denied
//     access. The app fails on the cluster.
//
// An error without a class is retryable. After context.DeadlineExceeded the engine also probes the
// cluster.
//
// The engine repeats calls after errors and after crashes, so calls must be idempotent. A call must
// return soon after ctx has ended.
package connector

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Batch has resources of one app on one cluster. Drivers must not change it.
type Batch struct {
	AppContextID, App string
	Cluster           appcontext.ClusterID
	// Resources are in the order of execution, for Delete in the order of deletion.
	Resources []appcontext.Resource
	// Progress, if not nil, should be called with the index of each resource that the cluster has
	// handled. It returns at once, and may be called from several goroutines. Each report restarts
	// rsync.Options.CallTimeout, and a repeated call omits the reported resources. A driver that
	// handles a batch as a whole does not call it.
	Progress func(index int)
	// WatchFor is the time after a Get in which a [StatusWatcher] must report each change of the
	// objects, even if they are ready.
	WatchFor time.Duration
	// Holder, if not nil, returns the ID of another app context that also holds an object, or "". A
	// driver must call it before it deletes an object to create it again, and must not delete an
	// object that another context holds.
	Holder func(ctx context.Context, object appcontext.Object) (string, error)
}

// Done calls Progress, if it is set.
func (b *Batch) Done(index int) {
	if b.Progress != nil {
		b.Progress(index)
	}
}

// State is the state of a resource on a cluster.
type State struct {
	appcontext.Object
	// Exists is true if the object exists, also during its deletion.
	Exists bool `json:"exists"`
	// Ready is true if the object works: replicas are available, a job is complete, a definition is
	// established. An object of another kind is ready when it exists.
	Ready bool `json:"ready,omitempty"`
	// Failed is true if the object will never be ready, for example a failed job.
	Failed bool `json:"failed,omitempty"`
	// Message explains the state in a sentence without content of the object.
	Message string `json:"message,omitempty"`
}

// Connector reaches one cluster. Its methods may be called from several goroutines. Close is called
// after all other calls have ended.
type Connector interface {
	// Apply creates or changes the objects in their order, and stops at the first failure. Objects
	// that do not depend on each other may be applied in parallel. The error should be an [*Error]
	// that names the object.
	Apply(ctx context.Context, batch Batch) error
	// Delete deletes the objects in their order. An object that does not exist is no error. Delete
	// need not wait until the objects are gone: the engine calls Get.
	Delete(ctx context.Context, batch Batch) error
	// Get returns the state of each object, in the order of the batch. With another number of
	// states the engine treats the call as a terminal error. An object that does not exist is no
	// error.
	Get(ctx context.Context, batch Batch) ([]State, error)
	// Probe returns nil if the cluster answers. It should be cheap. After a terminal error of Probe
	// the engine stops probing and makes the waiting calls, which return their own errors.
	Probe(ctx context.Context) error
	// Close releases the resources of the connector.
	Close() error
}

// StatusWatcher is an optional interface of a Connector that reports changes of objects, instead of
// polling. The engine has one watch for each cluster with waiting apps.
type StatusWatcher interface {
	// WatchStatus calls changed when the state of an object may have changed. It watches the
	// objects that connectors to the cluster have applied or deleted. It returns when ctx ends or
	// the watch fails. Calls of changed return immediately.
	WatchStatus(ctx context.Context, changed func()) error
}

// Connectors returns the connectors of clusters. [ByProvider] has those of several providers.
type Connectors interface {
	// Connector returns a connector, which the caller closes. After an error the engine calls it
	// again, depending on the class of the error. It may be called from several goroutines.
	Connector(ctx context.Context, provider, cluster string) (Connector, error)
}

// Func is a function that implements Connectors.
type Func func(ctx context.Context, provider, cluster string) (Connector, error)

// Connector calls the function.
func (f Func) Connector(ctx context.Context, provider, cluster string) (Connector, error) {
	return f(ctx, provider, cluster)
}

// ByProvider has the Connectors of each provider, by its name.
type ByProvider map[string]Connectors

// Connector returns a connector of the provider. For an unknown provider it returns a terminal
// error.
func (p ByProvider) Connector(ctx context.Context, provider, cluster string) (Connector, error) {
	if connectors := p[provider]; connectors != nil {
		return connectors.Connector(ctx, provider, cluster)
	}
	return nil, &Error{Class: ErrTerminal, Err: fmt.Errorf("unknown provider %q: must be one of %s", provider,
		strings.Join(slices.Sorted(maps.Keys(p)), ", "))}
}
