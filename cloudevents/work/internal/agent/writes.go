// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"math"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

var _ clientset.Backend = &backend{}

// backend implements the clientset of an agent.
type backend struct {
	*shared
	clientset.Reader[*agentWork]
	records *records
	answers *answers
	stopped <-chan struct{} // closed when Agent.Start has returned
}

func (b *backend) Supports(verb string, _ clientset.Subresource) error {
	switch verb {
	case "create", "delete", "deletecollection":
		return clientset.NotSupported(clientset.Resource, verb, "works are created and deleted at their source")
	}
	return nil
}

func (b *backend) List(ctx context.Context, q *cache.Query) (cache.Page, error) {
	if err := b.WaitSynced(ctx); err != nil {
		return cache.Page{}, err
	}
	return b.cache.List(q)
}

// WaitSynced waits for the end of the initial sync: before that, works of a source that has not
// answered would look deleted. Start may be called soon in another goroutine. Without that call,
// WaitSynced returns ServiceUnavailable after the quiet time.
func (b *backend) WaitSynced(ctx context.Context) error {
	select {
	case <-b.records.synced:
		return nil // even if the agent has stopped since
	default:
	}
	timer := b.options.Clock.NewTimer(b.options.QuietTime)
	defer timer.Stop()
	for {
		select {
		case <-b.records.synced:
			return nil
		case <-b.stopped:
			return peer.ErrStopped
		case <-ctx.Done():
			return clientset.Timeout(b.answers.problem()+": "+ctx.Err().Error(), 1, ctx.Err())
		case <-timer.C():
			b.cache.Lock()
			started := b.started
			b.cache.Unlock()
			if !started {
				return apierrors.NewServiceUnavailable("the agent is not started, so it has received no works")
			}
		}
	}
}

// Refresh does nothing: only this process changes an agent's works.
func (b *backend) Refresh(context.Context) (bool, error) { return false, nil }

func (b *backend) Create(context.Context, *workv1.ManifestWork, clientset.Create) (*workv1.ManifestWork, error) {
	return nil, b.Supports("create", "")
}

func (b *backend) Remove(context.Context, *workv1.ManifestWork, bool) (*workv1.ManifestWork, bool, error) {
	return nil, false, b.Supports("delete", "")
}

// Admit refuses changes of the spec, which belongs to the source. In metadata, an agent may change
// finalizers, labels and annotations.
func (b *backend) Admit(
	current, next *workv1.ManifestWork, sub clientset.Subresource, invalid field.ErrorList,
) error {
	if sub == clientset.StatusPart {
		status, said := next.Status, next.TypeMeta
		*next = *current
		next.Status = status
		if err := clientset.ValidateStatus(next, said, invalid); err != nil {
			return err
		}
		return b.fits(next)
	}
	clientset.CarryOver(current, next)
	next.Status = current.Status
	if !clientset.SameSpec(&current.Spec, &next.Spec) {
		invalid = append(invalid, field.Forbidden(
			field.NewPath("spec"), "the spec belongs to the work's source: an agent cannot change it"))
	}
	if !apiequality.Semantic.DeepEqual(current.OwnerReferences, next.OwnerReferences) {
		invalid = append(invalid, field.Forbidden(
			field.NewPath("metadata", "ownerReferences"), "the owners belong to the work's source: an agent cannot change them"))
	}
	return clientset.ValidateChange(current, next, false, invalid)
}

func (b *backend) Commit(
	ctx context.Context, current, next *workv1.ManifestWork,
) (*workv1.ManifestWork, bool, error) {
	out, ok, err := b.commitOne(ctx, current, next)
	if ok && err == nil {
		err = peer.Durable(ctx, b.records.journal)
	}
	return out, ok, err
}

func (b *backend) WaitDurable(ctx context.Context) error { return peer.Durable(ctx, b.records.journal) }

// commitOne stores a change. A status is published; metadata stays on the cluster. If a work in
// deletion has no finalizer left, its object is removed and reported to the source as gone.
func (b *backend) commitOne(
	ctx context.Context, current, next *workv1.ManifestWork,
) (*workv1.ManifestWork, bool, error) {
	published := !apiequality.Semantic.DeepEqual(&current.Status, &next.Status)
	b.cache.Lock()
	defer b.cache.Unlock()
	w := b.cache.Get(next.Namespace, next.Name)
	if w == nil || w.Object != current {
		return nil, false, nil
	}
	if b.cache.Sealed() {
		return nil, false, peer.ErrStopped
	}
	if published {
		if err := b.metrics.CountWrite(peer.CheckRoom(b.engine, w, b.options.Outbox)); err != nil {
			return nil, false, err
		}
	}
	w.Relearned = false // a controller handles the work, with or without finalizers
	if w.State == protocol.Deleting && len(next.Finalizers) == 0 {
		w.traceStatusLocked(ctx, current, next)
		w.removeLocked(next)
		return next, true, nil
	}
	w.keepLocked()
	b.cache.Put(w, next)
	if published {
		w.Unsent = nil
		w.traceStatusLocked(ctx, current, next)
		w.publishLocked()
	}
	return next, true, nil
}

// fits returns an error for a status that is too large for the broker. Escapes may double the size
// of a status.
func (b *backend) fits(obj *workv1.ManifestWork) error {
	limit := b.engine.MaxPacketSize()
	if limit == 0 || 2*int(peer.StatusSize(&obj.Status))+4096 < limit {
		return nil
	}
	b.cache.Lock()
	w := b.cache.Get(obj.Namespace, obj.Name)
	if w == nil {
		b.cache.Unlock()
		return nil // the commit detects this
	}
	status := codec.Status{
		Header:     b.header(w.source.name),
		WorkRef:    codec.WorkRef{ResourceID: w.id, Version: b.traits.MaxVersion, UID: w.UID, Name: w.Name},
		SequenceID: math.MaxInt64,
		Metadata:   &obj.ObjectMeta,
		Status:     &obj.Status,
	}
	b.cache.Unlock()
	m, err := peer.Encode(b.options.Profile, &status)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	// Leave room for a condition of this SDK: Deleted or Degraded.
	return b.metrics.CountWrite(peer.CheckSize(m, limit-min(1024, limit/4)))
}
