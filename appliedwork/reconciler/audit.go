// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// earlier has the untracked objects of earlier processes.
type earlier struct {
	mu        sync.Mutex // guards the fields; not held during requests
	survey    surveyPhase
	untracked map[types.UID][]v1alpha1.AppliedResourceMeta // by AppliedWork
}

// surveyPhase is the progress of the survey. After an error, it is surveyWanted again.
type surveyPhase int

const (
	surveyWanted  surveyPhase = iota // no caller has listed the cluster
	surveyRunning                    // a caller lists the cluster now
	surveyDone
)

// audit records the untracked objects of a work that an earlier process has created. The first call
// surveys the cluster for all works. Meanwhile other calls return false: their works are audited
// later.
func (r *Reconciler) audit(ctx context.Context, work *v1alpha1.AppliedWork) (done bool, err error) {
	if r.opts.NoAudit {
		return true, nil
	}
	e := &r.earlier
	e.mu.Lock()
	phase, objects := e.survey, e.untracked[work.UID]
	if phase == surveyWanted {
		e.survey = surveyRunning
	}
	delete(e.untracked, work.UID)
	e.mu.Unlock()
	switch phase {
	case surveyRunning:
		return false, nil
	case surveyWanted:
		found, err := r.survey(ctx)
		e.mu.Lock()
		if err != nil {
			e.survey = surveyWanted
			e.mu.Unlock()
			return false, err
		}
		objects = found[work.UID]
		delete(found, work.UID)
		e.survey, e.untracked = surveyDone, found
		e.mu.Unlock()
	}
	if len(objects) == 0 {
		return true, nil
	}
	if err := r.tracker.RecordApplied(ctx, work, objects...); err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.untracked[work.UID] = objects
		return false, fmt.Errorf("record the untracked objects of %s: %w", work.Name, err)
	}
	klog.FromContext(ctx).Info("Recorded objects that an earlier process left untracked",
		"appliedWork", work.Name, "objects", len(objects))
	return true, nil
}

func (r *Reconciler) survey(ctx context.Context) (map[types.UID][]v1alpha1.AppliedResourceMeta, error) {
	survey, err := r.collector.Survey(ctx, appliedwork.SurveyOptions{})
	if err != nil {
		return nil, fmt.Errorf("look for objects that an earlier process left untracked: %w", err)
	}
	if n := len(survey.Unread); n > 0 {
		klog.FromContext(ctx).Info("Failed to read some kinds while looking for untracked objects",
			"unread", n, "err", first(survey.Unread))
	}
	return survey.Untracked, nil
}

// first returns one of the errors, the same each time.
func first(errs map[string]error) error {
	name := slices.Min(slices.Collect(maps.Keys(errs)))
	return fmt.Errorf("%s: %w", name, errs[name])
}
