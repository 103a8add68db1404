// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/examples/agent/internal/fields"
	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
)

// unasked are the conditions of every manifest, with or without a rule.
var unasked = []string{workv1.ManifestApplied, workv1.ManifestAvailable, workv1.ManifestProgressing,
	workv1.ManifestDegraded, StatusFeedbackSynced}

// conditionType is the pattern of the API's schema. The API server refuses a whole status with an
// invalid type.
var conditionType = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?` +
	`(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`)

func isConditionType(text string) bool { return len(text) <= 316 && conditionType.MatchString(text) }

// errSecret is why the rules for a Secret are not evaluated.
var errSecret = errors.New("rules do not read Secrets: remove the rules, or start the agent with --secret-feedback")

func yes(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

func no(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

func unknown(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}

// unusable returns a condition if rules are not evaluated, or have an invalid condition type.
func unusable(o *spoke.Outcome) *metav1.Condition {
	rules, err := o.Config.ConditionRules, o.Config.ConditionErr
	if o.Guarded && (len(rules) > 0 || err != nil) {
		return new(no(ReasonSecretNotRead, errSecret.Error()))
	}
	if err != nil {
		return new(no(ReasonLimitExceeded, fmt.Sprintf("Only rules for standard conditions are evaluated: %v", err)))
	}
	var texts []string
	for _, rule := range rules {
		if !isConditionType(rule.Condition) {
			texts = append(texts, strconv.Quote(rule.Condition))
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return new(no("InvalidConditionType", Bounded(fmt.Sprintf("These rules have an invalid condition type: %s: write "+
		"letters, digits, '-', '_' and '.' with a letter or a digit at both ends", strings.Join(texts, ", ")))))
}

// unseen returns the condition of a rule without an object.
func unseen(o *spoke.Outcome) metav1.Condition {
	c := unknown(workv1.ConditionRuleInternalError, "The object does not exist")
	if o.ReadErr != nil {
		c.Message = Bounded(fmt.Sprintf("The object cannot be read: %v", o.ReadErr))
	}
	return c
}

// unreachable reports whether an error is about the API server of the cluster, and not about an
// object: it does not answer, or cannot serve any request now.
func unreachable(err error) bool {
	return errors.As(err, new(*url.Error)) || errors.Is(err, context.DeadlineExceeded) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// Outage returns the condition of a work and its manifests while the API server does not answer.
func Outage(err error) metav1.Condition {
	return unknown(ReasonClusterUnreachable,
		Bounded(fmt.Sprintf("The API server of the cluster does not answer: %v", err)))
}

func manifestApplied(o *spoke.Outcome) metav1.Condition {
	switch {
	case o.Err == nil:
		return yes(workv1.AppliedManifestComplete, "Apply manifest complete")
	case unreachable(o.Err):
		return Outage(o.Err)
	}
	c := no(workv1.AppliedManifestFailed, Bounded(fmt.Sprintf("Failed to apply manifest: %v", o.Err)))
	switch {
	case errors.As(o.Err, new(*spoke.ExecutorError)):
		c.Reason = "ExecutorRefused"
	case errors.As(o.Err, new(*appliedwork.OwnershipConflictError)):
		c.Reason = "ApplyConflict"
	case errors.As(o.Err, new(*fields.Error)):
		c.Reason = workv1.AppliedManifestSSAIgnoreFieldError
	}
	return c
}

func manifestAvailable(o *spoke.Outcome) metav1.Condition {
	switch {
	case o.Live != nil:
		return yes(ReasonResourceAvailable, "Resource is available")
	case unreachable(o.ReadErr):
		return Outage(o.ReadErr)
	case o.ReadErr != nil:
		return unknown("FetchingResourceFailed", Bounded(fmt.Sprintf("Failed to fetch resource: %v", o.ReadErr)))
	case o.Resource.Resource == "" || o.Key.Name == "":
		return unknown("IncompletedResourceMeta", "Resource meta is incompleted")
	}
	return no("ResourceNotAvailable", "Resource is not available")
}

// manifestProgressing returns the condition Progressing. A manifest that cannot be applied is
// retried, so it still progresses.
func (b *Builder) manifestProgressing(ctx context.Context, o *spoke.Outcome) metav1.Condition {
	c := metav1.Condition{Status: metav1.ConditionTrue, Reason: workv1.WorkProgressingReasonApplying}
	switch {
	case o.Kept:
	case o.Err != nil && o.Pending:
		c.Message = Bounded(o.Err.Error())
		return c
	case o.Err != nil:
		c.Reason, c.Message = workv1.WorkProgressingReasonFailed, Bounded(o.Err.Error())
		if errors.As(o.Err, new(*guard.PanicError)) {
			c.Reason = ReasonPanicked
		}
		return c
	case o.ReadErr != nil:
		c.Message = Bounded(o.ReadErr.Error())
		return c
	case o.Live == nil:
		c.Message = "Resource is not available"
		return c
	default:
		// An object that cannot be interpreted counts as healthy.
		if why := failure(o.Live); why != "" {
			c.Reason, c.Message = ReasonObjectFailed, why
			return c
		}
		if healthy, err := b.native.Health(ctx, o.Live); err == nil && !healthy {
			c.Reason, c.Message = "NotHealthy", fmt.Sprintf("%s is not as desired yet", o.Live.GetKind())
			return c
		}
	}
	return no(workv1.WorkProgressingReasonCompleted, "Resource is as desired")
}

// failure returns why an object cannot become healthy any more, or "". Such an object still has the
// condition Progressing, because rollout controllers of OCM read Progressing=False as success.
func failure(live *unstructured.Unstructured) string {
	if live.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}) {
		return ""
	}
	found, _, _ := unstructured.NestedFieldNoCopy(live.Object, "status", "conditions")
	conditions, _ := found.([]any)
	for _, c := range conditions {
		fields, _ := c.(map[string]any)
		if fields["type"] == string(batchv1.JobFailed) && fields["status"] == string(metav1.ConditionTrue) {
			return Bounded(fmt.Sprintf("%v: %v", fields["reason"], fields["message"]))
		}
	}
	return ""
}

// applied returns the condition Applied of a work, with the number of failed manifests and the
// first error.
func applied(r *spoke.Result, manifests []workv1.ManifestCondition) metav1.Condition {
	is, _, _ := count(manifests, workv1.ManifestApplied)
	switch n, err := r.Failed(); {
	case n > 0 && unreachable(err) && is < len(manifests):
		return Outage(err)
	case n > 0 && unreachable(err): // the manifests of this generation were applied before
	case n > 0:
		return no("AppliedManifestWorkFailed", Bounded(fmt.Sprintf("Failed to apply manifest work: %v", err)))
	}
	return yes("AppliedManifestWorkComplete", "Apply manifest work complete")
}

func available(manifests []workv1.ManifestCondition) metav1.Condition {
	is, not, others := count(manifests, workv1.ManifestAvailable)
	down := slices.IndexFunc(manifests, func(m workv1.ManifestCondition) bool {
		c := meta.FindStatusCondition(m.Conditions, workv1.ManifestAvailable)
		return c != nil && c.Reason == ReasonClusterUnreachable
	})
	switch {
	case down >= 0:
		return unknown(ReasonClusterUnreachable,
			meta.FindStatusCondition(manifests[down].Conditions, workv1.ManifestAvailable).Message)
	case not > 0:
		return no("ResourcesNotAvailable", fmt.Sprintf("%d of %d resources are not available", not, len(manifests)))
	case others > 0:
		return unknown("ResourcesStatusUnknown",
			fmt.Sprintf("%d of %d resources have unknown status", others, len(manifests)))
	case is == 0:
		return yes("ResourcesAvailable", "There are no resources")
	}
	return yes("ResourcesAvailable", "All resources are available")
}

func progressing(r *spoke.Result, manifests []workv1.ManifestCondition) metav1.Condition {
	is, _, _ := count(manifests, workv1.ManifestProgressing)
	c := metav1.Condition{Status: metav1.ConditionTrue, Reason: workv1.WorkProgressingReasonApplying}
	switch {
	case is > 0:
		c.Message = fmt.Sprintf("%d of %d resources are not as desired yet", is, len(manifests))
		for i := range manifests {
			if p := meta.FindStatusCondition(manifests[i].Conditions, workv1.ManifestProgressing); p != nil &&
				(p.Reason == workv1.WorkProgressingReasonFailed || p.Reason == ReasonPanicked) {
				c.Reason = workv1.WorkProgressingReasonFailed
			}
		}
	case r.PruneErr != nil:
		c.Message = Bounded(fmt.Sprintf("Resources that were removed from the work still exist: %v", r.PruneErr))
	case len(r.Leaving) > 0:
		c.Message = fmt.Sprintf("%d resources that were removed from the work are being deleted", len(r.Leaving))
	default:
		return no(workv1.WorkProgressingReasonCompleted, "All resources are as desired")
	}
	return c
}

func degraded(manifests []workv1.ManifestCondition) metav1.Condition {
	if is, _, _ := count(manifests, workv1.ManifestDegraded); is > 0 {
		return yes("NotAsDesired", fmt.Sprintf("%d of %d resources are degraded", is, len(manifests)))
	}
	return no(ReasonAsDesired, "No resource is degraded")
}

// complete returns the condition Complete of a work. It covers the manifests with a rule for
// Complete; without any the condition does not exist.
func complete(r *spoke.Result, manifests []workv1.ManifestCondition) *metav1.Condition {
	completable, is := 0, 0
	for i := range r.Outcomes {
		if hasRule(r.Outcomes[i].Config.ConditionRules, workv1.ManifestComplete) {
			completable++
			if meta.IsStatusConditionTrue(manifests[i].Conditions, workv1.ManifestComplete) {
				is++
			}
		}
	}
	switch {
	case completable == 0:
		return nil
	case is < completable:
		return new(no("ManifestsNotComplete", fmt.Sprintf("%d of %d completable manifests are complete", is, completable)))
	}
	return new(yes(workv1.WorkManifestsComplete, "All completable manifests are complete"))
}

func count(manifests []workv1.ManifestCondition, kind string) (is, not, unknown int) {
	for i := range manifests {
		switch c := meta.FindStatusCondition(manifests[i].Conditions, kind); {
		case c == nil || c.Status == metav1.ConditionUnknown:
			unknown++
		case c.Status == metav1.ConditionTrue:
			is++
		default:
			not++
		}
	}
	return is, not, unknown
}

// ownPort is the local address of a connection in errors of package net. It changes with each
// attempt.
var ownPort = regexp.MustCompile(`\S+:\d+->`)

// Bounded limits the length of a message, because a status is sent often. It also removes parts
// that change with each attempt.
func Bounded(message string) string {
	const most = 2048
	message = ownPort.ReplaceAllString(message[:min(len(message), 8*most)], "")
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:most], "") + "…"
}

// setTrouble sets the conditions of a work that exist only while there is a problem.
func setTrouble(ctx context.Context, conditions Setter, w *workv1.ManifestWork, r *spoke.Result) {
	conditions.Optional(RulesWithinLimits, withinLimits(ctx))
	conditions.Optional(DeleteOptionUsable, deleteOption(w))
	conditions.Optional(ObjectsWatched, watched(r))
	conditions.Optional(Contested, contested(r))
}

func withinLimits(ctx context.Context) *metav1.Condition {
	if !guard.Exceeded(ctx) {
		return nil
	}
	return new(no(ReasonLimitExceeded, fmt.Sprintf("Not all rules were evaluated: %v", guard.ErrExceeded)))
}

func deleteOption(w *workv1.ManifestWork) *metav1.Condition {
	if w.Spec.DeleteOption == nil || w.Spec.DeleteOption.TTLSecondsAfterFinished == nil ||
		*w.Spec.DeleteOption.TTLSecondsAfterFinished >= 0 {
		return nil
	}
	return new(no("InvalidTTL", fmt.Sprintf("spec.deleteOption.ttlSecondsAfterFinished is %d: must be 0 or more",
		*w.Spec.DeleteOption.TTLSecondsAfterFinished)))
}

func watched(r *spoke.Result) *metav1.Condition {
	if len(r.Unwatched) == 0 {
		return nil
	}
	return new(no("WatchForbidden", Bounded(fmt.Sprintf("The agent may not watch objects of these kinds, and polls "+
		"them: %s: grant it watch", strings.Join(r.Unwatched, ", ")))))
}

func contested(r *spoke.Result) *metav1.Condition {
	n := 0
	for i := range r.Outcomes {
		if r.Outcomes[i].Contested {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return new(yes(ReasonChangedByOthers, fmt.Sprintf(
		"%d of %d resources are changed by others as often as they are applied", n, len(r.Outcomes))))
}

// manifestContested returns the condition Contested, with the other works that own the object.
func manifestContested(o *spoke.Outcome) *metav1.Condition {
	if !o.Contested {
		return nil
	}
	c := new(yes(ReasonChangedByOthers, "Others change the resource as often as it is applied. It is applied with "+
		"growing pauses: let only one of them own the fields"))
	if rivals := o.Rivals(); len(rivals) > 0 {
		c.Message = Bounded(fmt.Sprintf("%s. These works have it too: %s", c.Message, strings.Join(rivals, ", ")))
	}
	return c
}
