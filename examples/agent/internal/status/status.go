// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package status computes the status of a work from the outcomes of its manifests.
//
// Each manifest, and the work as a whole, has four conditions without a rule:
//
//	Applied      the cluster has accepted the manifest of the work
//	Available    the object exists
//	Progressing  the object is not applied, or not healthy by the native interpreter
//	Degraded     Progressing for longer than a limit, or a Job that has failed
//
// Each manifest also has StatusFeedbackSynced and the conditions of its rules. A rule for one of
// these conditions replaces it, if the object exists. The work is Complete when each manifest with
// a rule for Complete is complete. From then on nothing changes, except that manifests which were
// not applied are still applied.
package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
	"github.com/spokewire/sdk-go/examples/agent/internal/rules"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/interpreter/native"
)

// Types and reasons of conditions without a constant in the API. Most are the same as in OCM's agent.
const (
	Deleted              = "Deleted"
	StatusFeedbackSynced = "StatusFeedbackSynced"
	ConditionRulesUsable = "ConditionRulesUsable" // False, or absent
	RulesWithinLimits    = "RulesWithinLimits"    // of the work; False, or absent
	DeleteOptionUsable   = "DeleteOptionUsable"   // of the work; False, or absent
	ObjectsWatched       = "ObjectsWatched"       // of the work; False, or absent
	ManifestsReported    = "ManifestsReported"    // of the work; False, or absent
	Contested            = "Contested"            // of the work and of a manifest; True, or absent

	ReasonSecretNotRead     = "SecretNotRead"
	ReasonResourceAvailable = "ResourceAvailable"
	ReasonObjectFailed      = "ObjectFailed"
	ReasonAsDesired         = "AsDesired"
	ReasonExpired           = "TTLExpired"
	ReasonStatusRefused     = "StatusRefused"
	ReasonPanicked          = "AgentPanicked"
	ReasonPostponed         = "AgentEnded"
	ReasonLimitExceeded     = "LimitExceeded"
	ReasonChangedByOthers   = "ChangedByOthers"
	// ReasonClusterUnreachable is the reason of Available, and of Applied for a new generation, while
	// the API server of the cluster does not answer. The other conditions stay.
	ReasonClusterUnreachable = "ClusterUnreachable"

	conditionRulePrefix = "ConditionRule"
)

// Builder computes statuses. It may be used concurrently.
type Builder struct {
	rules         *rules.Evaluator
	native        *native.Interpreter
	degradedAfter time.Duration
}

// NewBuilder returns a Builder. A manifest that is progressing for longer than degradedAfter is
// degraded.
func NewBuilder(degradedAfter time.Duration) (*Builder, error) {
	evaluator, err := rules.New()
	if err != nil {
		return nil, err
	}
	return &Builder{rules: evaluator, native: native.New(), degradedAfter: degradedAfter}, nil
}

// Kept returns a function that reports whether a manifest must not be changed any more, because it
// or the whole work is complete by the last status. A manifest that was not applied when the work
// became complete is not kept: it must still be applied.
func Kept(w *workv1.ManifestWork) func(*manifest.Manifest) bool {
	old := previousOf(w.Status.ResourceStatus.Manifests)
	// A new generation may have new manifests or rules, which must be evaluated first.
	c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkComplete)
	complete := c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == w.Generation
	return func(m *manifest.Manifest) bool {
		was := old.of(m.Meta()).Conditions
		return complete && meta.IsStatusConditionTrue(was, workv1.ManifestApplied) ||
			meta.IsStatusConditionTrue(was, workv1.ManifestComplete) &&
				hasRule(m.Config.ConditionRules, workv1.ManifestComplete)
	}
}

// Next returns the next status of a work: a function of the last status, of the outcomes of the
// manifests, and of the time. Conditions that did not change keep their time. After is the time
// after which the status changes without an event; 0 means never.
func (b *Builder) Next(
	ctx context.Context, w *workv1.ManifestWork, r *spoke.Result, now time.Time,
) (next workv1.ManifestWorkStatus, after time.Duration) {
	w.Status.DeepCopyInto(&next)
	old := previousOf(next.ResourceStatus.Manifests)
	manifests := make([]workv1.ManifestCondition, len(r.Outcomes))
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		was := old.of(o.Meta())
		m := workv1.ManifestCondition{ResourceMeta: o.Meta(), Conditions: slices.Clone(was.Conditions)}
		var left time.Duration
		err := guard.Recover(ctx, "evaluating the rules of the manifest", func() error {
			left = b.manifest(ctx, w, o, &m, was.StatusFeedbacks.Values, now)
			return nil
		})
		if err != nil {
			NewSetter(&m.Conditions, w.Generation, now).Set(workv1.ManifestDegraded, yes(ReasonPanicked, err.Error()))
		}
		if left > 0 && (after == 0 || left < after) {
			after = left
		}
		manifests[i] = m
	}
	next.ResourceStatus.Manifests = manifests
	conditions := NewSetter(&next.Conditions, w.Generation, now)
	conditions.Set(workv1.WorkApplied, applied(r, manifests))
	conditions.Set(workv1.WorkAvailable, available(manifests))
	conditions.Set(workv1.WorkProgressing, progressing(r, manifests))
	conditions.Set(workv1.WorkDegraded, degraded(manifests))
	conditions.Optional(workv1.WorkComplete, complete(r, manifests))
	setTrouble(ctx, conditions, w, r)
	// of an earlier incarnation, or report
	for _, gone := range []string{workv1.WorkDeleting, Deleted, ManifestsReported} {
		conditions.Optional(gone, nil)
	}
	return next, after
}

// manifest sets the conditions and values of one manifest. It returns the time until the manifest
// becomes degraded.
func (b *Builder) manifest(
	ctx context.Context, w *workv1.ManifestWork, o *spoke.Outcome, m *workv1.ManifestCondition,
	values []workv1.FeedbackValue, now time.Time,
) (left time.Duration) {
	conditions, rules := NewSetter(&m.Conditions, w.Generation, now), o.Config.ConditionRules
	dropRules(&m.Conditions, rules)
	// A rule cannot make a refused manifest applied, and cannot be evaluated without an object.
	byRule := func(kind string) bool {
		return o.Live != nil && !o.Guarded && hasRule(rules, kind) && (kind != workv1.ManifestApplied || o.Err == nil)
	}
	standard := func(kind string, c metav1.Condition) {
		if !byRule(kind) {
			conditions.Set(kind, c)
		}
	}
	was := meta.FindStatusCondition(m.Conditions, workv1.ManifestApplied)
	if unreachable(o.Err) && was != nil && was.ObservedGeneration == w.Generation &&
		was.Status != metav1.ConditionUnknown {
		conditions.Set(workv1.ManifestAvailable, Outage(o.Err)) // nothing is known about the object itself
		m.StatusFeedbacks.Values = values
		return 0
	}
	if !o.Kept || was == nil {
		standard(workv1.ManifestApplied, manifestApplied(o))
	}
	standard(workv1.ManifestAvailable, manifestAvailable(o))
	if o.Live != nil {
		var c metav1.Condition
		values, c = readValues(ctx, o)
		standard(StatusFeedbackSynced, c)
	} else if o.Guarded || o.ReadErr == nil && !o.Kept {
		values = nil
	}
	m.StatusFeedbacks.Values = values
	standard(workv1.ManifestProgressing, b.manifestProgressing(ctx, o))
	if !byRule(workv1.ManifestDegraded) {
		var c metav1.Condition
		c, left = b.manifestDegraded(m.Conditions, now)
		conditions.Set(workv1.ManifestDegraded, c)
	}
	for _, rule := range rules {
		switch c := meta.FindStatusCondition(m.Conditions, rule.Condition); {
		case !isConditionType(rule.Condition): // see unusable
		case o.Kept && rule.Condition == workv1.ManifestComplete && c != nil && c.Status == metav1.ConditionTrue:
			c.ObservedGeneration = w.Generation
		case byRule(rule.Condition):
			conditions.Set(rule.Condition, b.rules.Evaluate(ctx, rule, o.Live))
		case slices.Contains(unasked, rule.Condition):
		case o.Guarded:
			conditions.Set(rule.Condition, unknown(workv1.ConditionRuleInvalid, errSecret.Error()))
		case o.Live == nil && !o.Kept:
			conditions.Set(rule.Condition, unseen(o))
		}
	}
	if c := manifestContested(o); c != nil || !hasRule(rules, Contested) {
		conditions.Optional(Contested, c)
	}
	if c := unusable(o); c != nil || !hasRule(rules, ConditionRulesUsable) {
		conditions.Optional(ConditionRulesUsable, c)
	}
	return left
}

// readValues reads the values of the feedback rules, and returns the condition StatusFeedbackSynced.
func readValues(ctx context.Context, o *spoke.Outcome) ([]workv1.FeedbackValue, metav1.Condition) {
	if err := o.Config.FeedbackErr; err != nil && !o.Guarded {
		return nil, no(ReasonLimitExceeded, fmt.Sprintf("No feedback rule is evaluated: %v", err))
	}
	if len(o.Config.FeedbackRules) == 0 && o.Config.FeedbackErr == nil {
		return nil, metav1.Condition{Status: metav1.ConditionTrue, Reason: "NoStatusFeedbackSynced"}
	}
	if o.Guarded {
		return nil, no(ReasonSecretNotRead, errSecret.Error())
	}
	values, err := rules.Feedback(ctx, o.Config.FeedbackRules, o.Live, o.InVersion)
	if t := o.Config.BadScrapeType; t != "" {
		err = errors.Join(fmt.Errorf("feedbackScrapeType %q is unknown: write Watch or Poll", t), err)
	}
	if err != nil {
		message := Bounded(fmt.Sprintf("Sync status feedback failed with error %v", err))
		return values, no("StatusFeedbackSyncFailed", message)
	}
	return values, metav1.Condition{Status: metav1.ConditionTrue, Reason: "StatusFeedbackSynced"}
}

// manifestDegraded depends on the time that the manifest has been progressing, and on the reason of
// that.
func (b *Builder) manifestDegraded(conditions []metav1.Condition, now time.Time) (metav1.Condition, time.Duration) {
	c := metav1.Condition{Status: metav1.ConditionFalse, Reason: ReasonAsDesired}
	progress := meta.FindStatusCondition(conditions, workv1.ManifestProgressing)
	if progress == nil || progress.Status != metav1.ConditionTrue {
		return c, 0
	}
	if progress.Reason == ReasonObjectFailed || progress.Reason == ReasonPanicked { // waiting does not help
		return yes(progress.Reason, progress.Message), 0
	}
	if left := b.degradedAfter - now.Sub(progress.LastTransitionTime.Time); left > 0 {
		c.Reason = progress.Reason
		return c, left
	}
	return yes(progress.Reason, fmt.Sprintf("For longer than %s: %s", b.degradedAfter, progress.Message)), 0
}

// Setter sets conditions. Conditions with the same status keep their time.
type Setter struct {
	conditions *[]metav1.Condition
	generation int64
	now        metav1.Time
}

// NewSetter returns a Setter for the conditions of a generation.
func NewSetter(conditions *[]metav1.Condition, generation int64, now time.Time) Setter {
	return Setter{conditions, generation, metav1.NewTime(now).Rfc3339Copy()}
}

// Set sets the condition of a type.
func (s Setter) Set(kind string, c metav1.Condition) {
	c.Type, c.ObservedGeneration, c.LastTransitionTime = kind, s.generation, s.now
	meta.SetStatusCondition(s.conditions, c)
}

// Optional sets or removes the condition of a type.
func (s Setter) Optional(kind string, c *metav1.Condition) {
	if c == nil {
		meta.RemoveStatusCondition(s.conditions, kind)
	} else {
		s.Set(kind, *c)
	}
}

// dropRules removes the conditions of rules that do not exist any more.
func dropRules(conditions *[]metav1.Condition, rules []workv1.ConditionRule) {
	*conditions = slices.DeleteFunc(*conditions, func(c metav1.Condition) bool {
		return strings.HasPrefix(c.Reason, conditionRulePrefix) && !hasRule(rules, c.Type)
	})
}

func hasRule(rules []workv1.ConditionRule, condition string) bool {
	return slices.ContainsFunc(rules, func(r workv1.ConditionRule) bool { return r.Condition == condition })
}

// previous finds the last status of a manifest, without a search of the list.
type previous map[workv1.ManifestResourceMeta]*workv1.ManifestCondition

// anyOrdinal is in the key of the first of several entries for the same object.
const anyOrdinal = -1

func previousOf(manifests []workv1.ManifestCondition) previous {
	p := make(previous, 2*len(manifests))
	for i := range manifests {
		m := &manifests[i]
		key := keyOf(m.ResourceMeta, m.ResourceMeta.Resource != "")
		p[key] = m
		key.Ordinal = anyOrdinal
		if p[key] == nil {
			p[key] = m
		}
	}
	return p
}

// keyOf returns the key of an entry. The namespace of an entry without a resource may have changed
// since.
func keyOf(m workv1.ManifestResourceMeta, located bool) workv1.ManifestResourceMeta {
	key := workv1.ManifestResourceMeta{Ordinal: m.Ordinal, Group: m.Group, Kind: m.Kind, Name: m.Name}
	if located {
		key.Namespace, key.Resource = m.Namespace, "known"
	}
	return key
}

// of returns the last status of the same object. Its ordinal may have changed, and its resource and
// namespace are only known after its kind. If the work has the object twice, the entry with the
// same ordinal is returned.
func (p previous) of(m workv1.ManifestResourceMeta) workv1.ManifestCondition {
	if m.Name == "" {
		return workv1.ManifestCondition{} // the object is unknown
	}
	for _, ordinal := range []int32{m.Ordinal, anyOrdinal} {
		m.Ordinal = ordinal
		for _, located := range []bool{true, false} {
			if was := p[keyOf(m, located)]; was != nil {
				return *was
			}
		}
	}
	return workv1.ManifestCondition{}
}
