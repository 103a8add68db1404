// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"iter"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Engine is the interface that a server serves. [*rsync.Engine] and [*Client] implement it. All
// methods may be called from any goroutine. See [rsync.Engine] for their results.
type Engine interface {
	Contexts
	Queue
	Rollouts
	Detacher
	Observer
}

// Contexts stores and stops app contexts: see Create, AppContext, Delete and List of
// [rsync.Engine].
type Contexts interface {
	Latch
	Create(ctx context.Context, c *appcontext.AppContext) error
	AppContext(ctx context.Context, id string) (*appcontext.AppContext, error)
	Delete(ctx context.Context, id string) error
	List(ctx context.Context) ([]rsync.Summary, error)
}

// Queue queues events: see Instantiate, Terminate, Update, Rollback and Read of [rsync.Engine].
type Queue interface {
	Instantiate(ctx context.Context, id string, options ...rsync.CallOption) (rsync.EventRef, error)
	Terminate(ctx context.Context, id string, options ...rsync.CallOption) (rsync.EventRef, error)
	Update(ctx context.Context, from, to string, options ...rsync.CallOption) (rsync.EventRef, error)
	Rollback(ctx context.Context, from, to string, options ...rsync.CallOption) (rsync.EventRef, error)
	Read(ctx context.Context, id string, options ...rsync.CallOption) (rsync.EventRef, error)
}

// Latch stops app contexts: Stop and ClearStop are those of [rsync.Engine].
type Latch interface {
	Stop(ctx context.Context, id string) error
	ClearStop(ctx context.Context, id string) error
}

// Rollouts follows and controls rollouts: RolloutStatus, Approve, Pause, Resume and Abort are those
// of [rsync.Engine].
type Rollouts interface {
	RolloutStatus(ctx context.Context, ref rsync.EventRef) (*rsync.RolloutStatus, error)
	Approve(ctx context.Context, ref rsync.EventRef, approval rsync.Approval) error
	Pause(ctx context.Context, ref rsync.EventRef) error
	Resume(ctx context.Context, ref rsync.EventRef) error
	Abort(ctx context.Context, ref rsync.EventRef) error
}

// Detacher removes dead clusters from app contexts: Detach, Attach, Detached and Forget are those
// of [rsync.Engine].
type Detacher interface {
	Detach(ctx context.Context, id string, cluster appcontext.ClusterID) error
	Attach(ctx context.Context, id string, cluster appcontext.ClusterID) error
	Detached(ctx context.Context) ([]rsync.Remnant, error)
	Forget(ctx context.Context, cluster appcontext.ClusterID) error
}

// Observer reads app contexts: Diff, Status, Wait and Watch are those of [rsync.Engine].
type Observer interface {
	Diff(ctx context.Context, event rsync.EventType, id, from string) (*rsync.Diff, error)
	Status(ctx context.Context, id string) (*rsync.Status, error)
	Wait(ctx context.Context, ref rsync.EventRef) (*rsync.Status, error)
	Watch(ctx context.Context, id string, fromRevision int64) iter.Seq2[rsync.Change, error]
}

var (
	_ Engine = &rsync.Engine{}
	_ Engine = &Client{}
)
