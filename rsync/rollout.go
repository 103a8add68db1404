// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Rollout defines how an Instantiate or an Update moves from cluster to cluster: see [WithRollout].
//
// Groups run one after the other, and the clusters of a group begin in the order of the group. The
// clusters in no group run last, in the order of the context. A cluster succeeds when all apps of
// the event on it succeed, and fails when one of them fails.
type Rollout struct {
	// Groups are optional. Each cluster must have an app of the context, and be in one group at most.
	Groups []RolloutGroup `json:"groups,omitempty"`
	// MaxConcurrency limits the clusters of a group that are in progress. It is a number from 1,
	// for example "5", or a percentage of the group, for example "10%". A percentage is rounded
	// down to a number of clusters, but to at least 1. Empty means no limit.
	MaxConcurrency string `json:"maxConcurrency,omitempty"`
	// MaxFailures is the number of clusters that may fail: a number from 0, or a percentage of all
	// clusters, rounded down. When more clusters have failed, no further cluster begins. Empty
	// means 0.
	//
	// Within MaxFailures the rollout continues to the last cluster, but the event still ends with
	// the status Error if a cluster has failed.
	MaxFailures string `json:"maxFailures,omitempty"`
	// Until defines when an app succeeds on a cluster. With Deployed all of its resources must be
	// applied, with Ready they must also be ready. Defaults to Ready.
	Until appcontext.OpStatus `json:"until,omitempty"`
	// MinSuccessTime is the time for which the resources must be ready without a break (soak time).
	// It requires Until Ready.
	MinSuccessTime time.Duration `json:"minSuccessTime,omitempty"`
	// ProgressDeadline limits the time of a cluster from its begin to its success, including
	// MinSuccessTime. A cluster that takes longer fails. 0 means no limit.
	ProgressDeadline time.Duration `json:"progressDeadline,omitempty"`
	// RollbackOnFailure queues a rollback when the event ends with the status Error: also after
	// Abort, and after one failed cluster within MaxFailures. After a Stop or a Terminate no
	// rollback is queued. After an Update the rollback is an Update to the earlier context, if the
	// earlier context is Instantiated. After an Instantiate it is a Terminate, if the context had
	// no objects before. See [Element].Rollback.
	RollbackOnFailure bool `json:"rollbackOnFailure,omitempty"`
}

// RolloutGroup is a step of a rollout: some clusters with limits and gates.
type RolloutGroup struct {
	// Name is unique in the rollout.
	Name     string                 `json:"name"`
	Clusters []appcontext.ClusterID `json:"clusters,omitempty"`
	// MaxConcurrency defaults to that of the rollout.
	MaxConcurrency string `json:"maxConcurrency,omitempty"`
	// MaxFailures limits the failed clusters of this group, in addition to MaxFailures of the
	// rollout. A percentage is a percentage of the group. Empty means only the limit of the
	// rollout.
	MaxFailures string `json:"maxFailures,omitempty"`
	// ApproveBefore makes the group wait until Engine.Approve is called for it.
	ApproveBefore bool `json:"approveBefore,omitempty"`
	// Wait is the time between the end of the last cluster of the group and the next step.
	Wait time.Duration `json:"wait,omitempty"`
	// ApproveAfter makes the rollout wait after the group until Engine.Approve is called for it. An
	// Update deletes nothing before the last group is approved.
	ApproveAfter bool `json:"approveAfter,omitempty"`
}

// Gate is a point of a group at which the rollout waits for an approval.
type Gate string

// The gates of a group.
const (
	GateBeforeGroup Gate = "Before"
	GateAfterGroup  Gate = "After"
)

// Approval opens a gate.
type Approval struct {
	Group string `json:"group"`
	Gate  Gate   `json:"gate"`
}

// RolloutStatus is the progress of a rollout. After the end of the event, Groups has the counts of
// that time.
type RolloutStatus struct {
	Ref     EventRef
	Rollout Rollout
	// Status is the status of the event.
	Status          ElementStatus
	Paused, Aborted bool
	Approved        []Approval
	// Groups has the groups of the rollout in order. The clusters in no group, if any, follow as a
	// group without a name.
	Groups []RolloutGroupStatus
	// Waiting is the reason why no further cluster begins: an approval, a pause, a wait, or
	// failures. It is empty if the rollout only waits for clusters in progress.
	Waiting string
	// Needs is the approval that the rollout waits for. It is nil if the rollout waits for no approval.
	Needs *Approval
}

// RolloutGroupStatus counts the clusters of a group. Clusters that it does not count as in
// progress, succeeded or failed have not begun. [Status].Clusters has the failed apps, with their
// reasons.
type RolloutGroupStatus struct {
	Name                                    string
	Clusters, InProgress, Succeeded, Failed int
}

// WithRollout is an option that makes an Instantiate or an Update a rollout. The store keeps the
// rollout with the event. For an invalid rollout the call returns an [*InvalidRolloutError] and
// writes nothing. Invalid are, for example, an unknown cluster, a cluster in two groups, and a
// MaxConcurrency of 0. MinSuccessTime must be shorter than ProgressDeadline. No app may wait for an
// app on a cluster of a later group. With this option, calls of other events return
// ErrInvalidInput.
func WithRollout(r Rollout) CallOption { return CallOption{Rollout: &r} }

// maxRollout limits the stored size of a rollout with all of its approvals, in bytes.
const maxRollout = 512 << 10

// InvalidRolloutError names the invalid field of a rollout. It unwraps to ErrInvalidInput.
type InvalidRolloutError struct {
	// Field is the path in the rollout, for example "Groups[0].MaxFailures".
	Field   string
	Problem string
}

// Error returns the field and the problem.
func (e *InvalidRolloutError) Error() string {
	return fmt.Sprintf("%s: Rollout.%s: %s", ErrInvalidInput, e.Field, e.Problem)
}

// Unwrap returns ErrInvalidInput.
func (e *InvalidRolloutError) Unwrap() error { return ErrInvalidInput }

func invalidRollout(field, format string, args ...any) error {
	return &InvalidRolloutError{field, fmt.Sprintf(format, args...)}
}

// Validate returns the error with which an Instantiate of the context or an Update to it would
// reject the rollout. It does not check whether the engine's Transitions allow RollbackOnFailure.
func (r *Rollout) Validate(c *appcontext.AppContext) error {
	if c == nil {
		return invalid("the app context is nil")
	}
	h := head{ID: c.ID}
	for i := range c.Apps {
		h.Apps = append(h.Apps, newHeadApp(&c.Apps[i]))
	}
	return r.validate(&h)
}

func (r *Rollout) validate(h *head) error {
	switch {
	case r.Until != "" && r.Until != appcontext.OpStatusDeployed && r.Until != appcontext.OpStatusReady:
		return invalidRollout("Until", "%q: must be Deployed or Ready", r.Until)
	case r.MinSuccessTime < 0:
		return invalidRollout("MinSuccessTime", "%s: must not be negative", r.MinSuccessTime)
	case r.ProgressDeadline < 0:
		return invalidRollout("ProgressDeadline", "%s: must not be negative", r.ProgressDeadline)
	case r.MinSuccessTime > 0 && r.Until == appcontext.OpStatusDeployed:
		return invalidRollout("MinSuccessTime", "%s: needs Until Ready", r.MinSuccessTime)
	case r.ProgressDeadline > 0 && r.MinSuccessTime >= r.ProgressDeadline:
		return invalidRollout("MinSuccessTime", "%s: must be shorter than ProgressDeadline, which is %s",
			r.MinSuccessTime, r.ProgressDeadline)
	}
	if err := validateLimits("", r.MaxConcurrency, r.MaxFailures); err != nil {
		return err
	}
	group, err := r.validateGroups(h)
	if err != nil {
		return err
	}
	return r.validateOrder(h, group)
}

func validateLimits(prefix, concurrency, failures string) error {
	if n, err := scaled(concurrency, 100, 1); err != nil || n < 1 {
		return invalidRollout(prefix+"MaxConcurrency", "%q: must be a number from 1, or a percentage from 1%% to 100%%",
			concurrency)
	}
	if _, err := scaled(failures, 100, 0); err != nil {
		return invalidRollout(prefix+"MaxFailures", "%q: must be a number from 0, or a percentage from 0%% to 100%%",
			failures)
	}
	return nil
}

// scaled returns the number of clusters for a limit. For an empty limit it returns otherwise.
func scaled(limit string, total, otherwise int) (int, error) {
	if limit == "" {
		return otherwise, nil
	}
	text, percentage := strings.CutSuffix(limit, "%")
	n, err := strconv.ParseUint(text, 10, 31)
	switch {
	case err != nil:
		return 0, err
	case percentage && n > 100:
		return 0, strconv.ErrRange
	case percentage:
		return int(n) * total / 100, nil //nolint:gosec // at most 100
	}
	return int(n), nil //nolint:gosec // of 31 bits
}

// validateGroups checks the groups, and returns the index of the group of each cluster. Clusters in
// no group are not in the map.
func (r *Rollout) validateGroups(h *head) (map[appcontext.ClusterID]int, error) {
	known := map[appcontext.ClusterID]bool{}
	for _, c := range h.clusters() {
		known[c] = true
	}
	names, group := map[string]bool{}, map[appcontext.ClusterID]int{}
	for i, g := range r.Groups {
		prefix := fmt.Sprintf("Groups[%d].", i)
		switch {
		case g.Name == "":
			return nil, invalidRollout(prefix+"Name", "must be set")
		case len(g.Name) > appcontext.MaxName:
			return nil, invalidRollout(prefix+"Name", "must have %d bytes at most", appcontext.MaxName)
		case !utf8.ValidString(g.Name):
			return nil, invalidRollout(prefix+"Name", "%q: must be UTF-8", g.Name)
		case names[g.Name]:
			return nil, invalidRollout(prefix+"Name", "%q: is the name of an earlier group", g.Name)
		case g.Wait < 0:
			return nil, invalidRollout(prefix+"Wait", "%s: must not be negative", g.Wait)
		}
		names[g.Name] = true
		if err := validateLimits(prefix, g.MaxConcurrency, g.MaxFailures); err != nil {
			return nil, err
		}
		for j, c := range g.Clusters {
			field := fmt.Sprintf("%sClusters[%d]", prefix, j)
			if !known[c] {
				return nil, invalidRollout(field, "%s: app context %q has no app on this cluster", c, h.ID)
			}
			if other, ok := group[c]; ok {
				return nil, invalidRollout(field, "%s: is in group %q already", c, r.Groups[other].Name)
			}
			group[c] = i
		}
	}
	if size := r.size(); size > maxRollout {
		return nil, invalidRollout("Groups", "a rollout of %d bytes with all approvals: the limit is %d", size,
			maxRollout)
	}
	return group, nil
}

// size returns the size of the record at the end of the rollout.
func (r *Rollout) size() int {
	record := rolloutRecord{Rollout: *r}
	for _, g := range r.Groups {
		if g.ApproveBefore {
			record.Approved = append(record.Approved, Approval{g.Name, GateBeforeGroup})
		}
		if g.ApproveAfter {
			record.Approved = append(record.Approved, Approval{g.Name, GateAfterGroup})
		}
		n := len(g.Clusters)
		record.Ended = append(record.Ended, RolloutGroupStatus{g.Name, n, n, n, n})
	}
	return len(encode(record))
}

// validateOrder rejects a rollout in which an app waits for an app on another cluster that may not
// begin first. That cluster is in a later group, or in the same group with a limited concurrency.
func (r *Rollout) validateOrder(h *head, group map[appcontext.ClusterID]int) error {
	of := func(c appcontext.ClusterID) int {
		if i, ok := group[c]; ok {
			return i
		}
		return len(r.Groups)
	}
	limited := func(i int) bool {
		return r.MaxConcurrency != "" || i < len(r.Groups) && r.Groups[i].MaxConcurrency != ""
	}
	apps := map[string]*headApp{}
	last := map[string]int{} // the last group of each app
	for i := range h.Apps {
		a := &h.Apps[i]
		apps[a.Name] = a
		for _, c := range a.Clusters {
			last[a.Name] = max(last[a.Name], of(c))
		}
	}
	for _, a := range h.Apps {
		for _, d := range a.DependsOn {
			needed := apps[d.App]
			if needed == nil {
				continue
			}
			there := map[appcontext.ClusterID]bool{}
			for _, c := range needed.Clusters {
				there[c] = true
			}
			for _, c := range a.Clusters {
				at := of(c)
				if !there[c] && (last[d.App] > at || last[d.App] == at && limited(at)) {
					return invalidRollout("Groups",
						"app %q on %s waits for app %q, which must be on clusters of earlier groups only",
						a.Name, c, d.App)
				}
			}
		}
	}
	return nil
}

// clusters returns the clusters of a context, each once, in the order of the context.
func (h *head) clusters() []appcontext.ClusterID {
	var out []appcontext.ClusterID
	seen := map[appcontext.ClusterID]bool{}
	for _, a := range h.Apps {
		for _, c := range a.Clusters {
			if !seen[c] {
				seen[c] = true
				out = append(out, c)
			}
		}
	}
	return out
}
