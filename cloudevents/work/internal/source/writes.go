// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// sourceBackend is the backend of the clientset of a source.
type sourceBackend struct {
	*Source
	clientset.Reader[*sourceWork]
}

func (s *sourceBackend) Supports(verb string, sub clientset.Subresource) error {
	if sub == clientset.StatusPart {
		return clientset.NotSupported(clientset.StatusResource, verb, "agents write statuses")
	}
	return nil
}

// WaitSynced does not wait: a source creates its works itself. Refresh reads the works of other
// replicas.
func (s *sourceBackend) WaitSynced(context.Context) error { return nil }

func (s *sourceBackend) Refresh(ctx context.Context) (bool, error) { return s.replica.refresh(ctx) }

func (s *sourceBackend) WaitDurable(ctx context.Context) error { return peer.Durable(ctx, s.journal) }

// Create adds an object.
func (s *sourceBackend) Create(
	ctx context.Context, obj *workv1.ManifestWork, c clientset.Create,
) (*workv1.ManifestWork, error) {
	if !c.DryRun {
		if err := s.replica.lead(ctx); err != nil {
			return nil, err
		}
	}
	generated := obj.Name == "" && obj.GenerateName != ""
	refresher := clientset.NewRefresher(s.replica.refresh, c.DryRun)
	for attempt := 1; ; attempt++ {
		if generated {
			obj.Name = generateName(obj.GenerateName)
		}
		out, done, err := s.createOne(ctx, obj, c)
		if generated && attempt < maxNames && apierrors.IsAlreadyExists(err) {
			continue
		}
		if apierrors.IsAlreadyExists(err) {
			if again, err := refresher.Again(ctx); err != nil {
				return nil, err
			} else if again {
				continue
			}
		}
		if err == nil && !c.DryRun {
			err = s.finish(ctx, done)
		}
		return out, err
	}
}

// Limits of generated names, as on the API server: at most 63 bytes, and at most 8 attempts to find
// a free name.
const (
	maxNameBase  = 63 - randomSuffix
	randomSuffix = 5
	maxNames     = 8
)

func generateName(base string) string {
	return base[:min(len(base), maxNameBase)] + rand.String(randomSuffix)
}

// createOne stores a new object and queues it in the outbox. It removes a tombstone of the same
// name: the agent then replaces the old incarnation, and does not delete it.
func (s *Source) createOne(
	ctx context.Context, obj *workv1.ManifestWork, create clientset.Create,
) (*workv1.ManifestWork, written, error) {
	if err := completeNew(obj, s.now()); err != nil {
		return nil, written{}, err
	}
	id := s.options.Profile.ResourceID(s.options.SourceID, obj.Namespace, obj.Name)
	key := workID{obj.Namespace, id}
	if err := s.fits(id, obj); err != nil {
		return nil, written{}, err
	}
	if create.Check != nil {
		if err := create.Check(obj); err != nil {
			return nil, written{}, err
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writableLocked(create.DryRun); err != nil {
		return nil, written{}, err
	}
	if old := s.works[key]; old != nil && old.Object != nil {
		return nil, written{}, exists(old, obj.GenerateName != "")
	}
	c := s.clusterLocked(obj.Namespace)
	w := &sourceWork{
		cluster: c, id: id, name: obj.Name, phase: protocol.SourceActive, uid: obj.UID, session: c.session,
	}
	if err := s.roomLocked(w); err != nil {
		return nil, written{}, err
	}
	if create.DryRun {
		return obj, written{}, nil
	}
	if old := s.works[key]; old != nil {
		old.dropLocked(nil)
	}
	s.shared.specLocked(&obj.Spec)
	w.numberLocked(obj)
	w.createV, w.bundle.Created = w.version, true
	done := w.traceWriteLocked(ctx, peer.StepCreate)
	s.works[key] = w
	w.cluster.delivery.unconfirmLocked(w)
	w.putLocked(obj)
	w.accountLocked()
	w.sendLocked()
	return obj, done, nil
}

// completeNew sets the fields of a new object that its creator does not set, and validates it.
func completeNew(obj *workv1.ManifestWork, now time.Time) error {
	if obj.ResourceVersion != "" {
		return clientset.InternalError("resourceVersion should not be set on objects to be created")
	}
	if err := clientset.Normalize(obj); err != nil {
		return err
	}
	obj.TypeMeta = metav1.TypeMeta{}
	obj.UID = types.UID(uuid.NewString())
	obj.CreationTimestamp = metav1.NewTime(now).Rfc3339Copy()
	obj.Generation = 1
	obj.DeletionTimestamp, obj.DeletionGracePeriodSeconds = nil, nil
	obj.Status = workv1.ManifestWorkStatus{}
	crd.Default(&obj.Spec)
	if err := clientset.ValidateNew(obj, nil); err != nil {
		return err
	}
	if err := codec.ValidateName("metadata.namespace", obj.Namespace); err != nil {
		return apierrors.NewInvalid(clientset.Kind, obj.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "namespace"), obj.Namespace, err.Error())})
	}
	return nil
}

// exists returns the error for a name that is in use. With a generateName, another attempt may find
// a free name.
func exists(w *sourceWork, generates bool) error {
	err := apierrors.NewAlreadyExists(clientset.Resource, w.name)
	if generates {
		err = apierrors.NewGenerateNameConflict(clientset.Resource, w.name, 1)
	}
	if w.phase.IsDeleting() {
		err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
	}
	return err
}

// Admit completes and validates an update. It keeps the status, which belongs to the agent. It
// keeps the clean-up finalizer of a deleted work until the agent is done.
func (s *sourceBackend) Admit(
	current, next *workv1.ManifestWork, _ clientset.Subresource, invalid field.ErrorList,
) error {
	clientset.CarryOver(current, next)
	next.Status = current.Status
	if current.DeletionTimestamp != nil && slices.Contains(current.Finalizers, workv1.ManifestWorkFinalizer) &&
		!slices.Contains(next.Finalizers, workv1.ManifestWorkFinalizer) {
		next.Finalizers = append(slices.Clone(next.Finalizers), workv1.ManifestWorkFinalizer)
	}
	crd.Default(&next.Spec)
	specChanged := !clientset.SameSpec(&current.Spec, &next.Spec)
	if specChanged {
		next.Generation++
	}
	if err := clientset.ValidateChange(current, next, specChanged, invalid); err != nil {
		return err
	}
	return s.fits(s.options.Profile.ResourceID(s.options.SourceID, next.Namespace, next.Name), next)
}

// Commit replaces an object.
func (s *sourceBackend) Commit(
	ctx context.Context, current, next *workv1.ManifestWork,
) (*workv1.ManifestWork, bool, error) {
	if err := s.replica.lead(ctx); err != nil {
		return nil, false, err
	}
	out, done, err := s.commitOne(ctx, current, next)
	if out == nil || err != nil {
		return nil, false, err
	}
	return out, true, s.finish(ctx, done)
}

// commitOne stores a change and publishes it. It does not publish a change of finalizers, which are
// not sent, or of a work that is being deleted, which no agent applies.
func (s *Source) commitOne(
	ctx context.Context, current, next *workv1.ManifestWork,
) (*workv1.ManifestWork, written, error) {
	published := current.DeletionTimestamp == nil &&
		(next.Generation != current.Generation || !clientset.SameMetadata(current, next))
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.cache.Get(next.Namespace, next.Name)
	if w == nil || w.Object != current {
		return nil, written{}, nil
	}
	if err := s.writableLocked(false); err != nil {
		return nil, written{}, err
	}
	done := written{term: s.term}
	if published {
		if err := s.roomLocked(w); err != nil {
			return nil, written{}, err
		}
		w.raiseLocked(next)
	}
	if next.DeletionTimestamp != nil && len(next.Finalizers) == 0 {
		w.dropLocked(next)
		return next, done, nil
	}
	if next.Generation != current.Generation {
		s.shared.specLocked(&next.Spec)
	}
	w.putLocked(next)
	if published {
		done = w.traceWriteLocked(ctx, peer.StepUpdate)
		w.sendLocked()
	}
	return next, done, nil
}

// Remove begins the deletion of an object.
func (s *sourceBackend) Remove(
	ctx context.Context, current *workv1.ManifestWork, dryRun bool,
) (*workv1.ManifestWork, bool, error) {
	if !dryRun {
		if err := s.replica.lead(ctx); err != nil {
			return nil, false, err
		}
	}
	out, done, err := s.removeOne(ctx, current, dryRun)
	if out == nil || err != nil || dryRun {
		return out, out != nil, err
	}
	return out, true, s.finish(ctx, done)
}

// removeOne marks the work as deleting and publishes the deletion. The work stays until its agent
// reports it gone.
func (s *Source) removeOne(
	ctx context.Context, current *workv1.ManifestWork, dryRun bool,
) (*workv1.ManifestWork, written, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.cache.Get(current.Namespace, current.Name)
	if w == nil || w.Object != current {
		return nil, written{}, nil
	}
	if err := s.writableLocked(dryRun); err != nil {
		return nil, written{}, err
	}
	if w.phase.IsDeleting() || dryRun {
		return current, written{term: s.term}, nil
	}
	if err := s.roomLocked(w); err != nil {
		return nil, written{}, err
	}
	obj := *current
	obj.DeletionTimestamp = ptr.To(metav1.NewTime(s.now()).Rfc3339Copy())
	obj.DeletionGracePeriodSeconds = ptr.To[int64](0)
	obj.Generation++
	obj.Finalizers = slices.DeleteFunc(slices.Clone(obj.Finalizers), forCollector)
	if !slices.Contains(obj.Finalizers, workv1.ManifestWorkFinalizer) {
		obj.Finalizers = append(obj.Finalizers, workv1.ManifestWorkFinalizer)
	}
	w.phase, w.deleted = protocol.SourceDeleting, *obj.DeletionTimestamp
	w.raiseLocked(&obj)
	done := w.traceWriteLocked(ctx, peer.StepDelete)
	w.putLocked(&obj)
	w.sendLocked()
	return &obj, done, nil
}

// forCollector reports whether a finalizer waits for the garbage collector. The objects of a source
// have no dependents here.
func forCollector(finalizer string) bool {
	return finalizer == metav1.FinalizerDeleteDependents || finalizer == metav1.FinalizerOrphanDependents
}

// cannotSend converts a codec's error to an error of the API server.
func cannotSend(err error) error {
	var e *codec.Error
	if errors.As(err, &e) && e.Code == codec.CodeAttribute && e.Field == "metadata" {
		return apierrors.NewRequestEntityTooLargeError(err.Error())
	}
	return apierrors.NewBadRequest(err.Error())
}

// writableLocked returns an error if the source has stopped. If the write is no dry run, it also
// returns an error if this process may not write.
func (s *Source) writableLocked(dryRun bool) error {
	switch {
	case s.cache.Sealed():
		return peer.ErrStopped
	case !dryRun && s.outranked:
		return apierrors.NewServiceUnavailable(s.rivals.describeLocked().Error())
	case !dryRun && !s.writingLocked():
		return peer.ErrReplaced
	}
	return nil
}
