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

// work is the state of one work on one cluster. The hub's mutex guards it.
type work struct {
	key  key
	file manifests.File
	// generation is the last sent version. Reports of other versions are ignored.
	generation     int64
	sent, reported time.Time
	// deleted is set when the hub deleted the work, isGone when the agent has finalized it.
	deleted, isGone bool
	// problem is the reason why the work is not applied. unready is whether a workload is not
	// ready.
	problem  string
	feedback string
	unready  bool
}

// The following methods return the missing step of a work, as the end of a sentence, or "".

// settled returns "" after the report that the current version is applied and available.
func (w *work) settled() string {
	switch {
	case w.deleted || !w.reported.IsZero():
		return ""
	case w.problem != "":
		return "is not applied: " + w.problem
	}
	return "has no status"
}

// ready returns "" if the workloads have all their replicas.
func (w *work) ready() string {
	if w.unready && !w.deleted {
		return "has " + w.feedback
	}
	return ""
}

// absent returns "" if the agent has removed the objects.
func (w *work) absent() string {
	if w.isGone {
		return ""
	}
	return "is not reported as deleted"
}

// sent records that a version is sent. The file is given the first time.
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

// deleting records that a work is deleted. It returns false if there is no such work.
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

// observe handles a work of the informer.
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

// whyNot returns the first manifest that is not applied, with its file and document, and the
// reason.
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

// readiness returns the sum of the replicas in the status feedback of a work.
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

// gone handles the deletion of a work in the informer.
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

// progressed wakes waiting calls. The caller holds the mutex.
func (h *Hub) progressed() {
	h.changed.Wake()
}

// wait returns nil when lacks returns "" for all works. If no work makes progress for the status
// timeout, it returns an error with a waiting work and its missing step. If ctx ends, it returns
// the cause.
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
			stuck, _ = h.stuck(lacks) // it may have a newly reported problem, which is no progress
			if len(stuck) == 0 {
				return nil
			}
			others := ""
			if len(stuck) > 1 {
				others = fmt.Sprintf(" (and %s)", progress.Count(len(stuck)-1, "other work"))
			}
			return fmt.Errorf("no progress for %v s: %s%s", h.o.StatusTimeout.Seconds(), stuck[0], others)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stuck returns the sorted missing steps of works, and a channel that is closed when a work makes
// progress.
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
