// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/codec"
)

// Abandon implements the method of work.Source.
func (s *Source) Abandon(ctx context.Context, cluster, name string) error {
	if err := codec.ValidateName("cluster", cluster); err != nil {
		return fmt.Errorf("work.Source.Abandon: %w", err)
	}
	refresher := clientset.NewRefresher(s.refresh, false)
	for {
		if err := s.lead(ctx); err != nil {
			return err
		}
		term, err := s.abandon(cluster, name)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			if again, err := refresher.Again(ctx); err != nil {
				return err
			} else if again {
				continue
			}
		}
		if err != nil {
			return err
		}
		return s.stored(ctx, term)
	}
}

func (s *Source) abandon(cluster, name string) (term uint64, err error) {
	s.cache.Lock()
	defer s.cache.Unlock()
	if err := s.writableLocked(false); err != nil {
		return 0, err
	}
	w := s.cache.Get(cluster, name)
	switch {
	case w == nil:
		return 0, apierrors.NewNotFound(clientset.Resource, name)
	case !w.phase.IsDeleting():
		return 0, apierrors.NewConflict(clientset.Resource, name,
			errors.New("the work is not being deleted; delete it before you abandon it"))
	}
	s.finishLocked(w)
	s.asked = false // the agent may still have it
	return s.termLocked(), nil
}
