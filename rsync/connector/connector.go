// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package connector is the interface through which the engine of package rsync reaches a cluster, and what a driver for
// some kind of cluster has to do. connector/fake is a cluster in memory that can be slow, failing, unreachable or a black
// hole; connector/connectortest holds a driver against this contract.
//
// # What a driver does
//
// It does what it is told once, and says what came of it. Retries, backoff, order between apps, waiting until objects are
// ready or gone, and noticing that a cluster is back are the engine's. A driver says by its errors what makes sense next:
//
//   - [ErrUnreachable]: the cluster, or the way to it, does not answer. The engine asks Probe, once for all who wait, until it does.
//   - [ErrRetryable]: it answers, but not now: a conflict, an overload, a webhook that is down.
//   - [ErrTerminal]: it never will: the object is invalid, or access is denied.
//
// An error without a class is retryable. So is context.DeadlineExceeded of a call that took too long; the engine then also
// probes the cluster.
//
// Calls are repeated after errors and after a crash of the engine, so each must come to the same when it is done twice. A
// call must end soon after its context has.
package connector

import (
	"context"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Batch is some resources of one app on one cluster. Drivers do not change it.
type Batch struct {
	// AppContextID and App say whose the resources are.
	AppContextID, App string
	Cluster           appcontext.ClusterID
	// Resources are in the order in which to handle them: for Delete that is the order to delete in.
	Resources []appcontext.Resource
	// Progress, if not nil, is what a driver should call with the index of each resource that the cluster has handled. It
	// returns at once, and may be called from several goroutines. A call that reports progress is not limited by
	// rsync.Options.CallTimeout, and is repeated without the resources that it has reported. A driver that handles a batch as
	// a whole does not call it.
	Progress func(index int)
	// WatchFor is for how long after a Get the caller wants a [StatusWatcher] to report each change
	// of the objects, also after they are ready.
	WatchFor time.Duration
	// Holder, if not nil, returns the name of another app context that has an object too, or "". A driver calls it before it
	// deletes an object in order to create it again, and leaves the object alone if there is such a context.
	Holder func(ctx context.Context, object appcontext.Object) (string, error)
}

// Done calls Progress, if there is one.
func (b *Batch) Done(index int) {
	if b.Progress != nil {
		b.Progress(index)
	}
}

// State is what a cluster says about a resource.
type State struct {
	appcontext.Object
	// Exists is whether the object is there, also while it is being deleted.
	Exists bool `json:"exists"`
	// Ready is whether it does what it is for: replicas are available, a job is complete, a definition is established. An object
	// that has no such state is ready when it exists.
	Ready bool `json:"ready,omitempty"`
	// Failed is whether it never will be ready: a job has failed.
	Failed bool `json:"failed,omitempty"`
	// Message says more, in a sentence without content of the object.
	Message string `json:"message,omitempty"`
}

// Connector reaches one cluster. Its methods may be called from several goroutines. Close is called
// after all other calls have ended.
type Connector interface {
	// Apply creates or changes the objects in their order, and stops when one fails. Objects that do not depend on each other
	// may be applied in parallel. The error should be an [*Error] that names the object.
	Apply(ctx context.Context, batch Batch) error
	// Delete asks for the deletion of the objects, in the order given. What is gone already is no error. It need not wait until
	// objects are gone: the engine asks Get.
	Delete(ctx context.Context, batch Batch) error
	// Get returns the state of each object, in the order of the batch: as many, else the engine takes the call for refused. One that
	// does not exist is no error.
	Get(ctx context.Context, batch Batch) ([]State, error)
	// Probe returns nil when the cluster answers. It should cost the cluster as little as possible. A terminal error says that asking
	// again is of no use: the calls that wait for the cluster are then made, and fail with what is wrong.
	Probe(ctx context.Context) error
	// Close frees what the connector holds.
	Close() error
}

// StatusWatcher is an optional ability of a Connector: to tell when something may have changed, so that the engine need
// not ask again and again while it waits until objects are ready or gone. The engine has one watch for each cluster on which
// it waits for something.
type StatusWatcher interface {
	// WatchStatus calls changed when the state of any object that was applied or deleted through connectors to the cluster may
	// have changed, until ctx ends or it cannot go on. Calls of changed return at once.
	WatchStatus(ctx context.Context, changed func()) error
}

// Connectors finds the connector of a cluster.
type Connectors interface {
	// Connector returns a connector that its caller closes. It is called again after it failed, as its error says, and after the
	// one before was closed. It may be called from several goroutines.
	Connector(ctx context.Context, provider, cluster string) (Connector, error)
}

// Func is a function that is a Connectors.
type Func func(ctx context.Context, provider, cluster string) (Connector, error)

// Connector calls the function.
func (f Func) Connector(ctx context.Context, provider, cluster string) (Connector, error) {
	return f(ctx, provider, cluster)
}
