// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
)

const (
	defaultUnservedGrace = 5 * time.Minute
	defaultIntentGrace   = 90 * time.Second
	// defaultShardBytes leaves room below 1 MiB for metadata and conditions. etcd accepts 1.5 MiB.
	defaultShardBytes = 900 << 10
	defaultMaxShards  = 64
	minShardBytes     = 1 << 10
	// defaultConcurrency is the number of objects that are read or written at a time.
	defaultConcurrency = 16
	maxConcurrency     = 256
)

// Options configures a [Tracker]. Client and Discovery are required.
type Options struct {
	// Client makes all requests for which no other client is set. The QPS and Burst of its
	// configuration limit how fast objects are applied and deleted. With client-go's defaults,
	// Teardown is slower than Kubernetes' garbage collector: set them higher.
	Client dynamic.Interface
	// Inventory reads and writes the AppliedWorks. Set it if Client has no rights on them, for
	// example because it impersonates a user. Defaults to Client.
	Inventory dynamic.Interface
	// Metadata reads the metadata of objects, and needs the rights of Client. Audit and Survey read
	// all objects of the cluster, Prune and Teardown the content of a Namespace. 50 or more objects
	// of a kind in a namespace are read with a list. Without Metadata, Client reads whole objects,
	// which needs several times the memory and bandwidth.
	Metadata metadata.Interface
	// InventoryMetadata lists the AppliedWorks for Prune, Plan, Teardown, Release and Owners, which
	// look for AppliedWorks with the same objects. It needs the rights of Inventory. Each call
	// reads only inventories that are new, have changed, or have such an object. Defaults to
	// Metadata if Inventory is not set. Without it, each call reads all inventories.
	InventoryMetadata metadata.Interface
	// Index stores which inventories may have an object. It needs 8 bytes for each recorded object
	// of the cluster, at most 64 MiB. Several Trackers of a cluster may share an Index. Defaults to
	// a new Index.
	Index *Index
	// Discovery reports what the API server serves. Use a discovery.DiscoveryClient, not one that
	// caches.
	Discovery Discovery
	// Protected are objects that are never deleted and never get an owner reference. Defaults to
	// [DefaultProtected]: append to its result.
	Protected []Key
	// ApplySet makes the objects of an AppliedWork an ApplySet (KEP-3659) with the AppliedWork as
	// its parent. kubectl lists the objects by the label applyset.kubernetes.io/part-of with the
	// value [ApplySetID]. An object of another ApplySet stays there. The CRD of the parent needs
	// the label that [v1alpha1.EnsureCRD] sets. An annotation with the kinds or the namespaces of
	// the set is empty if it would be longer than 64 KiB.
	ApplySet bool
	// Reviews checks what an [Executor] may do. Use AuthorizationV1().SubjectAccessReviews() of a
	// client that may create subjectaccessreviews. Required for [ApplyOptions].Executor.
	Reviews SubjectAccessReviews
	// Events receives a Kubernetes event for each refusal, at most 20 for each call. Nil means no
	// events.
	Events EventRecorder

	// UnservedGrace is the time for which discovery must report a type as not served before its
	// objects count as gone. Defaults to 5 minutes.
	UnservedGrace time.Duration
	// IntentGrace is the time for which Prune keeps an entry without a UID if the object does not
	// exist. It should be longer than the API server's request timeout, 60 seconds. Defaults to 90
	// seconds.
	IntentGrace time.Duration
	// MaxShardBytes is the size in bytes at which an inventory continues in another AppliedWork,
	// from 1 KiB to 1 MiB. Defaults to 900 KiB.
	MaxShardBytes int
	// MaxShards limits the number of AppliedWorks of one inventory. An existing inventory with more
	// stays readable. The number of shards is recorded before they are created, so some may not
	// exist after a crash. If more than MaxShards of them do not exist, the inventory cannot be
	// read. Defaults to 64, for some 300,000 entries.
	MaxShards int
	// Clock is the source of time. Defaults to the real clock.
	Clock clock.PassiveClock
}

// Discovery is the part of client-go's discovery.DiscoveryInterfaceWithContext that a [Tracker]
// needs.
type Discovery interface {
	// ServerGroupsWithContext lists the served groups with their versions.
	ServerGroupsWithContext(ctx context.Context) (*metav1.APIGroupList, error)
	// ServerResourcesForGroupVersionWithContext lists the resources of a group version.
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// EventRecorder is the part of client-go's record.EventRecorder that a [Tracker] needs.
type EventRecorder interface {
	// Eventf records an event about an object.
	Eventf(object runtime.Object, eventtype, reason, messageFmt string, args ...any)
}

// SubjectAccessReviews creates access reviews. AuthorizationV1().SubjectAccessReviews() of a
// kubernetes.Interface implements it.
type SubjectAccessReviews interface {
	// Create returns a review with its status.
	Create(
		ctx context.Context, review *authorizationv1.SubjectAccessReview, options metav1.CreateOptions,
	) (*authorizationv1.SubjectAccessReview, error)
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
	case o.UnservedGrace < 0:
		return fmt.Errorf("%w: Options.UnservedGrace: %v: must not be negative", ErrInvalidInput, o.UnservedGrace)
	case o.IntentGrace < 0:
		return fmt.Errorf("%w: Options.IntentGrace: %v: must not be negative", ErrInvalidInput, o.IntentGrace)
	case o.MaxShardBytes != 0 && o.MaxShardBytes < minShardBytes || o.MaxShardBytes > 1<<20:
		return fmt.Errorf("%w: Options.MaxShardBytes: %d: must be from %d to %d",
			ErrInvalidInput, o.MaxShardBytes, minShardBytes, 1<<20)
	case o.MaxShards < 0:
		return fmt.Errorf("%w: Options.MaxShards: %d: must not be negative", ErrInvalidInput, o.MaxShards)
	}
	return nil
}

// concurrencyOf returns the default for 0, and an error for a number out of range.
func concurrencyOf(n int) (int, error) {
	switch {
	case n == 0:
		return defaultConcurrency, nil
	case n < 0 || n > maxConcurrency:
		return 0, fmt.Errorf("%w: Concurrency: %d: must be from 1 to %d, or 0 for %d",
			ErrInvalidInput, n, maxConcurrency, defaultConcurrency)
	}
	return n, nil
}
