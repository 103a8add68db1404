// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/source"
)

// Source sends ManifestWorks to the agents of any number of clusters and shows their statuses. A
// hub controller uses its clientset in place of the one for the Kubernetes API.
//
// All methods may be called from any goroutine.
type Source struct{ source *source.Source }

// ConditionDelivered is the type of the condition that a source adds to the status of a work, with
// status False and reason NotConfirmed, when its agent has not confirmed the current version for
// 30 s. The source removes the condition when the agent confirms the version; it never sets True.
const ConditionDelivered = "Delivered"

// NewSource validates the options, loads the Store, claims the transport and returns a source that
// is not started. Its clientset works at once: writes wait in the outbox. NewSource blocks until
// Load returns, for example while a database starts.
//
// Errors name the invalid option: MetricsRegisterer if it already has metrics of this ID, Store if
// Load fails. The error is [cloudevents.ErrClaimed] if another client uses the transport. A failed
// call leaves no registration and no claim, and can be repeated with the same options and
// transport.
func NewSource(transport cloudevents.Transport, options SourceOptions) (*Source, error) {
	if transport == nil {
		return nil, errors.New("work.NewSource: the transport must not be nil")
	}
	if err := options.validate(); err != nil {
		return nil, fmt.Errorf("work.NewSource: %w", err)
	}
	s, err := source.New(transport, options.room())
	if err != nil {
		return nil, fmt.Errorf("work.NewSource: %w", err)
	}
	return &Source{s}, nil
}

// Clientset returns the clientset of the source. Callers may change the objects that it returns and
// that its watches deliver, except the bytes of manifests in objects from watches.
func (s *Source) Clientset() workclientset.Interface { return s.source.Clientset() }

// Start connects and serves until ctx ends. It then refuses writes with ServiceUnavailable, flushes
// the outbox for at most DrainTimeout, ends all watches and returns nil. With a Store, every write
// that returned nil is stored. Without one, Start logs the number of works that it could not
// publish in that time. Start waits another 5 s for a Store that hangs; then pending writes return
// errors, and Start logs their number. A second call returns [cloudevents.ErrStarted].
func (s *Source) Start(ctx context.Context) error { return s.source.Start(ctx) }

// Ready returns a channel that is closed when the source was first connected and subscribed and has
// requested the lists of its agents. If the broker refuses the request, the source retries with
// backoff, at least every 10 s, and [Source.Readyz] returns the reason.
func (s *Source) Ready() <-chan struct{} { return s.source.Ready() }

// Healthy returns nil while the source is connected and its Store works. Without a connection, the
// error has the cause and the time at which the connection ended. It also returns an error while
// another process has the same SourceID, and while unknown works stay because the Store is a
// restored backup or another process may have created them. For probes use [Source.Livez] and
// [Source.Readyz].
func (s *Source) Healthy() error { return s.source.Healthy() }

// Livez is a check for a liveness probe, a healthz.Checker of controller-runtime. It returns an
// error when Start has returned, and nil before Start and while the broker is away: a restart would
// not help. If the source is stuck, Livez does not return, and the probe times out.
func (s *Source) Livez(r *http.Request) error { return s.source.Livez(r) }

// Readyz is a check for a readiness probe, a healthz.Checker of controller-runtime. It returns nil
// while the source is connected and subscribed, once it has requested the lists of the agents.
// Otherwise the error names the missing step, or the request that the broker refuses. Of two
// processes with one SourceID only the newer process is ready, so a rolling update proceeds.
//
// Readyz also returns an error before Start. If a manager elects a leader, the readiness probe of a
// standby replica must not call Readyz, unless the source has a SharedGroup; see Probes in METRICS.md.
func (s *Source) Readyz(r *http.Request) error { return s.source.Readyz(r) }

// NeedLeaderElection returns whether a manager of controller-runtime starts the source only on the
// elected replica. With a SharedGroup it starts the source on all replicas.
func (s *Source) NeedLeaderElection() bool { return s.source.NeedLeaderElection() }

// InventoryComplete declares that all works of this source are created. Before the call, the source
// deletes only works that are deleted through its clientset. After it, the source also deletes
// unknown works on the clusters, 12 to 24 s after an agent has listed them. Without a Store, the
// first list of an agent that names this source waits for InventoryComplete. With a new Store, it
// waits for InventoryComplete or the first work of the agent's cluster. Create the works of a new
// Store before agents start: otherwise a first list may be partial.
//
// Without a Store, call it in each process, after all works are created again. A Store records the
// call, so one call is enough. If [Source.Healthy] reports that a backup was restored or that
// another process with the same ID was connected, create the missing works and call it again. Calls
// before that report do not count. If the call is too early, agents delete the works that are not
// created yet, and their workloads.
//
// Without SharedGroup it may be called before Start. It returns ServiceUnavailable after Start has
// ended, when another replica has become the leader, or while a newer process with this SourceID is
// connected. Otherwise it returns ctx's error, or an InternalError if the Store fails.
func (s *Source) InventoryComplete(ctx context.Context) error { return s.source.InventoryComplete(ctx) }

// InventoryDeclared reports whether InventoryComplete was called, in this process or, with a Store, in
// an earlier one. A program that calls InventoryComplete when all works are created checks it after
// NewSource: if it is true, only an operator who has compared the works may call InventoryComplete
// again, because the Store may be a restored backup.
func (s *Source) InventoryDeclared() bool { return s.source.InventoryDeclared() }

// Lead makes this replica the leader of the replicas that share a Store; see
// [SourceOptions].SharedGroup. It returns when the replica has read all changes of the previous
// leader. A write of the clientset does the same, so only a replica that may have nothing to write
// needs Lead. Without SharedGroup it has no effect.
//
// It returns ServiceUnavailable before Start and after the context of Start has ended. Other errors
// are ctx's and those of the Store. If this replica is the leader already, Lead checks in the Store
// that it still is.
func (s *Source) Lead(ctx context.Context) error { return s.source.Lead(ctx) }

// Cluster describes the agent of a cluster and the works of the cluster. See [Source.Clusters].
type Cluster struct {
	// Name is the name of the cluster.
	Name string
	// LastHeard is when the last message of its agent arrived at this process, zero before the
	// first. An agent of the profile ManifestWork that has works of this source sends at least one
	// message a minute.
	LastHeard time.Time
	// Works is the number of works of the cluster, including works that are being deleted.
	// Unconfirmed is how many of them have a version that the agent has not confirmed.
	Works, Unconfirmed int
}

// Clusters returns the clusters that the source has works for or has received messages from, sorted
// by name.
func (s *Source) Clusters() []Cluster {
	clusters := s.source.Clusters()
	out := make([]Cluster, len(clusters))
	for i, c := range clusters {
		out[i] = Cluster(c)
	}
	return out
}

// Forget ends the pending deletions of a cluster. Use it if the agent of the cluster will never
// return. Works that are not being deleted stay, and the cluster stays if it has such works. If the
// agent returns, the source deletes its unknown works once the inventory is complete.
//
// It returns nil for an unknown cluster and [*codec.Error] for an invalid name. Its other errors
// are those of [Source.InventoryComplete].
func (s *Source) Forget(ctx context.Context, cluster string) error {
	return s.source.Forget(ctx, cluster)
}

// Abandon ends the deletion of one work if its agent will never report it gone, for example because
// the cluster never had an agent. [Source.Forget] does the same for all works of a cluster. The
// work is removed unless finalizers of other controllers hold it. If an agent lists the work later,
// the source deletes it there once the inventory is complete.
//
// It returns NotFound for an unknown work and Conflict for a work that is not being deleted: delete
// it first. Other errors are those of Forget.
func (s *Source) Abandon(ctx context.Context, cluster, name string) error {
	return s.source.Abandon(ctx, cluster, name)
}

// TraceContext returns the trace context in which the source received the last status of a work; see
// [Tracer]. It is empty if the agent sent no trace context. The source does not keep it over a
// restart.
func (s *Source) TraceContext(cluster, name string) TraceContext {
	return s.source.TraceContext(cluster, name)
}

// SourceID makes the source ID that OCM's enhancement describes for a consumer on a hub cluster: a
// hash of the hub's URL (the first 8 bytes of its SHA-256, in hex), a dash and the consumer's name.
func SourceID(hubURL, consumer string) string {
	sum := sha256.Sum256([]byte(hubURL))
	return hex.EncodeToString(sum[:8]) + "-" + consumer
}
