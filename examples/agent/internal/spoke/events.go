// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spoke

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/internal/cut"
)

// Reasons of Events.
const (
	EventFailed    = "WorkFailed"
	EventRecovered = "WorkRecovered"
)

// maxEvent is the maximum of an Event's message in bytes, as in the API server.
const maxEvent = 1024

// Events writes Events of AppliedWorks. client-go limits them to a burst of 25 for each AppliedWork,
// and one in 5 minutes after that.
type Events struct {
	cluster     *Cluster
	client      *typedcorev1.CoreV1Client
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

// NewEvents returns Events that are not written before Start.
func NewEvents(ctx context.Context, c *Cluster) (*Events, error) {
	client, err := typedcorev1.NewForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("open a client for Events: %w", err)
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	recorder := broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: "work-agent"})
	return &Events{c, client, broadcaster, recorder}, nil
}

// Start writes Events until ctx ends. An Event that the API server refuses is dropped.
func (e *Events) Start(ctx context.Context) error {
	e.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: e.client.Events("")})
	<-ctx.Done()
	e.broadcaster.Shutdown()
	return nil
}

// Record queues an Event of the AppliedWork of a work, unless uid is empty: then there is none. It
// does not block.
func (e *Events) Record(namespace, work string, uid types.UID, reason, message string) {
	if uid == "" {
		return
	}
	kind := corev1.EventTypeNormal
	if reason == EventFailed {
		kind = corev1.EventTypeWarning
	}
	e.recorder.Event(&corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind,
		Name: e.cluster.recordName(namespace, work), UID: uid,
	}, kind, reason, cut.Within(message, maxEvent))
}
