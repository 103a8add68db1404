// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/manifests"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/progress"
)

// work is what the hub knows of one work on one cluster. The hub's mutex guards it.
type work struct {
	key  key
	file manifests.File
	// generation is the version sent last; what is reported of others is ignored.
	generation     int64
	sent, reported time.Time
	// deleted is set when the hub deleted the work, isGone when the agent is done with it.
	deleted, isGone bool
	// problem is why it is not applied, ready whether all its workloads are.
	problem  string
	feedback string
	unready  bool
}

// The methods below say what a work still lacks, as the end of a sentence; "" means nothing.

// settled: the agent has reported the current version as applied and available.
func (w *work) settled() string {
	switch {
	case w.deleted || !w.reported.IsZero():
		return ""
	case w.problem != "":
		return "is not applied: " + w.problem
	}
	return "has no status"
}

// ready: its workloads have all their replicas.
func (w *work) ready() string {
	if w.unready && !w.deleted {
		return "has " + w.feedback
	}
	return ""
}

// absent: the agent has removed its objects.
func (w *work) absent() string {
	if w.isGone {
		return ""
	}
	return "is not reported to be gone"
}

// sent notes that a version goes out now. The file is given the first time.
func (h *Hub) sent(k key, f manifests.File, generation int64, detail string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.works[k]
	if w == nil {
		w = &work{key: k, file: f}
		h.works[k] = w
	}
	w.generation, w.sent, w.reported, w.problem = generation, time.Now(), time.Time{}, ""
	h.emit(progress.Sent, w, w.sent, detail)
}

// deleting notes that a work is deleted now. It returns false if there is none.
func (h *Hub) deleting(k key) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.works[k]
	if w == nil || w.isGone {
		return false
	}
	if !w.deleted {
		w.deleted, w.sent, w.reported = true, time.Now(), time.Time{}
		h.emit(progress.Deleting, w, w.sent, "")
	}
	return true
}

// observe takes a work as the informer shows it.
func (h *Hub) observe(seen *workv1.ManifestWork) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.works[key{seen.Namespace, seen.Name}]
	if w == nil || w.deleted {
		return
	}
	applied := meta.FindStatusCondition(seen.Status.Conditions, workv1.WorkApplied)
	if applied == nil || applied.ObservedGeneration != w.generation {
		return
	}
	now := time.Now()
	if text, unready := readiness(seen); text != w.feedback {
		w.feedback, w.unready = text, unready
		defer h.emit(progress.Status, w, now, text)
		h.progressed()
	}
	available := meta.IsStatusConditionTrue(seen.Status.Conditions, workv1.WorkAvailable)
	if applied.Status == metav1.ConditionTrue && available {
		if w.reported.IsZero() {
			w.reported, w.problem = now, ""
			h.emit(progress.Reported, w, now, "")
			h.progressed()
		}
		return
	}
	if problem := w.whyNot(seen); w.reported.IsZero() && problem != w.problem {
		w.problem = problem
		h.emit(progress.Waiting, w, now, problem)
	}
}

// whyNot names the first manifest that is not applied, by file and document if there are several.
func (w *work) whyNot(seen *workv1.ManifestWork) string {
	for _, m := range seen.Status.ResourceStatus.Manifests {
		c := meta.FindStatusCondition(m.Conditions, workv1.ManifestApplied)
		if c == nil || c.Status == metav1.ConditionTrue {
			continue
		}
		reason := strings.TrimPrefix(c.Message, "Failed to apply manifest: ")
		if i := int(m.ResourceMeta.Ordinal); i >= 0 && i < len(w.file.Objects) {
			return fmt.Sprintf("%s: %s: %s", w.file.Objects[i].Where, w.file.Objects[i], reason)
		}
		return reason
	}
	for _, c := range seen.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			return c.Message
		}
	}
	return "not available"
}

// readiness sums up the replicas that a work's status feedback tells.
func readiness(seen *workv1.ManifestWork) (text string, unready bool) {
	var ready, wanted int64
	for _, m := range seen.Status.ResourceStatus.Manifests {
		for _, v := range m.StatusFeedbacks.Values {
			switch {
			case v.Value.Integer == nil:
			case v.Name == "ReadyReplicas":
				ready += *v.Value.Integer
			case v.Name == "Replicas":
				wanted += *v.Value.Integer
			}
		}
	}
	if wanted == 0 {
		return "", false
	}
	return fmt.Sprintf("%d/%d ready", ready, wanted), ready < wanted
}

// gone takes the end of a work from the informer.
func (h *Hub) gone(obj any) {
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.works[key{name.Namespace, name.Name}]
	if w == nil || !w.deleted || w.isGone {
		return
	}
	w.isGone, w.reported = true, time.Now()
	h.emit(progress.Gone, w, w.reported, "")
	h.progressed()
}

// progressed wakes those who wait. The caller holds the mutex.
func (h *Hub) progressed() {
	h.changed.Wake()
}

// wait returns when no work lacks anything. It gives up when nothing got further for the status timeout, and
// names a work that is stuck and what it lacks; or when ctx ends, with its cause.
func (h *Hub) wait(ctx context.Context, lacks func(*work) string) error {
	timeout := time.NewTimer(h.o.StatusTimeout)
	defer timeout.Stop()
	for {
		stuck, changed := h.stuck(lacks)
		if len(stuck) == 0 {
			return nil
		}
		select {
		case <-changed:
			timeout.Reset(h.o.StatusTimeout)
		case <-timeout.C:
			stuck, _ = h.stuck(lacks) // a problem may have been reported, which is no progress
			if len(stuck) == 0 {
				return nil
			}
			others := ""
			if len(stuck) > 1 {
				others = fmt.Sprintf(" (and %s waited for)", progress.Count(len(stuck)-1, "other work"))
			}
			return fmt.Errorf("no progress for %v s: %s%s", h.o.StatusTimeout.Seconds(), stuck[0], others)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stuck lists what works lack, sorted, and a channel that is closed when one gets further.
func (h *Hub) stuck(lacks func(*work) string) ([]string, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var stuck []string
	for k, w := range h.works {
		if what := lacks(w); what != "" {
			stuck = append(stuck, fmt.Sprintf("work %s on %s %s", k.name, k.cluster, what))
		}
	}
	slices.Sort(stuck)
	return stuck, h.changed.Next()
}
