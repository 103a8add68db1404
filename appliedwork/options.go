// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
)

const (
	defaultUnservedGrace = 5 * time.Minute
	defaultIntentGrace   = 90 * time.Second
	// defaultShardBytes leaves room below 1 MiB for metadata and for conditions; etcd takes 1.5 MiB.
	defaultShardBytes = 900 << 10
	defaultMaxShards  = 64
	minShardBytes     = 1 << 10
	// defaultConcurrency is how many objects are read or written at a time.
	defaultConcurrency = 16
	maxConcurrency     = 256
)

// Options is how to reach the managed cluster. Client and Discovery are required.
type Options struct {
	// Client makes all requests but those of discovery and, where Inventory is set, of inventories. The QPS and Burst of its
	// configuration limit how fast objects are applied and deleted. client-go's defaults are 5 requests a second and 10 at once, with
	// which Teardown is slower than Kubernetes' own collector: set them higher.
	Client dynamic.Interface
	// Inventory reads and writes the AppliedWorks. Set it if Client has no rights on AppliedWorks, for example because it
	// impersonates a user. Defaults to Client.
	Inventory dynamic.Interface
	// Metadata reads the metadata of objects: of all objects of the cluster for Audit and Survey, and of the content of a Namespace
	// for Prune and Teardown. It needs the rights of Client. Without it, Client reads the whole objects, which takes several times
	// the memory and bandwidth.
	Metadata metadata.Interface
	// InventoryMetadata lists the AppliedWorks for Prune, Plan, Teardown, Release and Owners, which look for AppliedWorks with the
	// same objects. It needs the rights of Inventory. Each call lists the metadata, and reads only inventories that are new, have
	// changed, or have such an object. Defaults to Metadata if Inventory is not set. Without a metadata client, each call reads all
	// inventories.
	InventoryMetadata metadata.Interface
	// Index keeps 8 bytes for each recorded object of the cluster, at most 64 MiB, for InventoryMetadata. Several Trackers of a cluster
	// may share one. Defaults to one of the Tracker's own.
	Index *Index
	// Discovery says what the API server serves: a discovery.DiscoveryClient, which must not be one that caches.
	Discovery Discovery
	// Protected are objects that are never deleted and never get an owner reference, so that Kubernetes' garbage collector
	// does not delete them either. Defaults to [DefaultProtected]. To add objects, append to that.
	Protected []Key
	// ApplySet makes the objects of an AppliedWork an ApplySet (KEP-3659) with the AppliedWork as its parent: kubectl lists them by
	// the label applyset.kubernetes.io/part-of, whose value is [ApplySetID], and kubectl apply --prune leaves them alone. An
	// object that is part of another ApplySet stays so. The parent's CRD needs the label that [v1alpha1.EnsureCRD] sets.
	// The annotation with the set's kinds or namespaces is empty when it would be longer than 64 KiB.
	ApplySet bool
	// Reviews asks what an [Executor] may do: AuthorizationV1().SubjectAccessReviews() of a client that may create
	// subjectaccessreviews. Required for [ApplyOptions].Executor.
	Reviews SubjectAccessReviews
	// Events takes a Kubernetes event for each refusal. Nil means none.
	Events EventRecorder

	// UnservedGrace is how long discovery must have said that a type is not served before its objects count as gone.
	// Defaults to 5 minutes.
	UnservedGrace time.Duration
	// IntentGrace is how long Prune keeps an entry whose apply was not confirmed and whose object does not exist: a request
	// may be under way still. It should be longer than the API server's request timeout, 60 seconds. Defaults to 90 seconds.
	IntentGrace time.Duration
	// MaxShardBytes is the size at which an inventory goes on in another AppliedWork: 1 KiB at least. Defaults to 900 KiB.
	MaxShardBytes int
	// MaxShards limits the AppliedWorks of one inventory, which may keep those that it has when the limit is lowered. Defaults
	// to 64, some 300,000 entries.
	MaxShards int
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// Discovery is what is needed of client-go's discovery.DiscoveryInterfaceWithContext.
type Discovery interface {
	// ServerGroupsWithContext lists the groups that are served, with their versions.
	ServerGroupsWithContext(ctx context.Context) (*metav1.APIGroupList, error)
	// ServerResourcesForGroupVersionWithContext lists the types of a version of a group.
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// EventRecorder is what is needed of client-go's record.EventRecorder.
type EventRecorder interface {
	// Eventf records an event about an object.
	Eventf(object runtime.Object, eventtype, reason, messageFmt string, args ...any)
}

func (o Options) withDefaults() Options {
	if o.Inventory == nil {
		o.Inventory = o.Client
		if o.InventoryMetadata == nil {
			o.InventoryMetadata = o.Metadata
		}
	}
	if o.Index == nil {
		o.Index = NewIndex()
	}
	if o.UnservedGrace == 0 {
		o.UnservedGrace = defaultUnservedGrace
	}
	if o.IntentGrace == 0 {
		o.IntentGrace = defaultIntentGrace
	}
	if o.MaxShardBytes == 0 {
		o.MaxShardBytes = defaultShardBytes
	}
	if o.MaxShards == 0 {
		o.MaxShards = defaultMaxShards
	}
	if o.Protected == nil {
		o.Protected = DefaultProtected()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Client == nil:
		return fmt.Errorf("%w: Options.Client is required", ErrInvalidInput)
	case o.Discovery == nil:
		return fmt.Errorf("%w: Options.Discovery is required", ErrInvalidInput)
	case o.UnservedGrace < 0 || o.IntentGrace < 0:
		return fmt.Errorf("%w: Options.UnservedGrace and Options.IntentGrace must not be negative", ErrInvalidInput)
	case o.MaxShardBytes != 0 && o.MaxShardBytes < minShardBytes || o.MaxShardBytes > 1<<20:
		return fmt.Errorf("%w: Options.MaxShardBytes is %d, and must be from %d to %d", ErrInvalidInput, o.MaxShardBytes, minShardBytes, 1<<20)
	case o.MaxShards < 0:
		return fmt.Errorf("%w: Options.MaxShards must not be negative", ErrInvalidInput)
	}
	return nil
}

// concurrencyOf returns the default for 0, and an error for what cannot be meant.
func concurrencyOf(n int) (int, error) {
	switch {
	case n == 0:
		return defaultConcurrency, nil
	case n < 0 || n > maxConcurrency:
		return 0, fmt.Errorf("%w: Concurrency is %d, and must be from 1 to %d, or 0 for %d", ErrInvalidInput, n, maxConcurrency, defaultConcurrency)
	}
	return n, nil
}
