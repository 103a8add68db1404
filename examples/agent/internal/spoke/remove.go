// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spoke

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
)

// Removal is the progress of removing a work.
type Removal struct {
	// Done is whether all objects of the work are removed.
	Done bool
	// Changes has the remaining objects, with the reasons; nil if nothing was removed.
	Changes *appliedwork.ChangeSet
	// Left are the remaining objects.
	Left Targets
}

// Remove removes the objects of a work, by its delete option. It is one pass: call it again while
// it is not done. The objects are deleted as the executor that the work names; or, if the agent
// refuses that executor, as the executor with which the work was applied last. If the agent refuses
// both, nothing is deleted and the error is an [*ExecutorError]. The error is a [*ForeignError] if
// the cluster has a work of this name from another hub: it may be this work, recorded under an
// earlier address of the hub.
func (c *Cluster) Remove(ctx context.Context, w *workv1.ManifestWork) (Removal, error) {
	name := c.recordName(w.Namespace, w.Name)
	record, err := c.get(ctx, name)
	if err != nil {
		return Removal{}, err
	}
	if record == nil {
		c.forgetAttempt(name)
		return Removal{Done: true}, nil
	}
	if err := c.mine(record); err != nil {
		of := settingsIn(record).Work
		if of != "" && of != w.UID { // nothing was applied for this work
			return Removal{Done: true}, nil
		}
		return Removal{}, err
	}
	if err := c.survey(ctx); err != nil {
		return Removal{}, err
	}
	s := settingsOf(w, manifest.Read(ctx, w, c))
	if _, err := c.identity(s.Executor); err != nil {
		s.Executor = settingsIn(record).Executor // the work may have lost its executor since it was applied
	}
	return c.remove(ctx, record, s)
}

func (c *Cluster) remove(ctx context.Context, record *v1alpha1.AppliedWork, s settings) (Removal, error) {
	id, policies, err := c.removal(record, s)
	if err != nil {
		return Removal{}, err
	}
	var changes *appliedwork.ChangeSet
	if policies.Default == appliedwork.PolicyOrphan {
		changes, err = id.collector.Release(ctx, record, appliedwork.ReleaseOptions{})
	} else {
		changes, err = id.collector.Teardown(ctx, record,
			appliedwork.TeardownOptions{Propagation: propagation, Policies: policies})
	}
	if err == nil && changes.Done() {
		c.forgetAttempt(record.Name)
		return Removal{Done: true, Changes: changes}, nil
	}
	return Removal{Changes: changes, Left: targetsIn(record, changes)}, id.explain(err)
}

// removal returns the identity that removes the objects of a work, and the policies for that.
func (c *Cluster) removal(record *v1alpha1.AppliedWork, s settings) (*identity, appliedwork.Policies, error) {
	id, err := c.identity(s.Executor)
	if errors.As(err, new(*ExecutorError)) {
		err = fmt.Errorf("%w; or delete AppliedWork %s, and Kubernetes' garbage collector deletes its objects",
			err, record.Name)
	}
	if err != nil {
		return nil, appliedwork.Policies{}, err
	}
	policies, err := s.policies()
	return id, policies, err
}

// Evict removes the objects of a work that the hub no longer has, after the grace period. It
// returns the remaining time of that period. The objects are deleted as the executor with which the
// work was applied last. If the agent refuses that executor, the error is an [*ExecutorError]. For
// an AppliedWork of another hub the error is a [*ForeignError].
func (c *Cluster) Evict(ctx context.Context, namespace, name string) (time.Duration, Removal, error) {
	record, err := c.get(ctx, c.recordName(namespace, name))
	if err != nil || record == nil {
		return 0, Removal{Done: err == nil}, err
	}
	if err := c.mine(record); err != nil {
		return 0, Removal{}, err
	}
	id, policies, err := c.removal(record, settingsIn(record))
	if err != nil {
		return 0, Removal{}, err
	}
	eviction, err := id.collector.Evict(ctx, record, appliedwork.EvictOptions{
		GracePeriod: c.options.EvictionGrace,
		Teardown:    appliedwork.TeardownOptions{Propagation: propagation, Policies: policies},
	})
	if err != nil {
		return 0, Removal{}, id.explain(err)
	}
	if eviction.Changes == nil {
		return eviction.Remaining, Removal{}, nil
	}
	c.forgetAttempt(record.Name)
	return 0, Removal{
		Done: eviction.Changes.Done(), Changes: eviction.Changes, Left: targetsIn(record, eviction.Changes),
	}, nil
}

// propagation is Foreground of the API, the default.
const propagation = metav1.DeletePropagationForeground

// policies returns the delete option for package appliedwork. Objects that a work only reads are
// never deleted. An unknown policy is an error, so nothing is deleted.
func (s *settings) policies() (appliedwork.Policies, error) {
	var p appliedwork.Policies
	p.ByKey = map[appliedwork.Key]appliedwork.Policy{}
	for _, key := range s.readOnly {
		p.ByKey[key] = appliedwork.PolicyOrphan
	}
	if s.DeleteOption == nil {
		return p, nil
	}
	// An option that is set holds for all objects. Without it, objects that existed before the work stay.
	p.Adopted = appliedwork.PolicyDelete
	switch s.DeleteOption.PropagationPolicy {
	case "", workv1.DeletePropagationPolicyTypeForeground:
	case workv1.DeletePropagationPolicyTypeOrphan:
		p.Default = appliedwork.PolicyOrphan
	case workv1.DeletePropagationPolicyTypeSelectivelyOrphan:
		p.Default = appliedwork.PolicySelectivelyOrphan
		if selected := s.DeleteOption.SelectivelyOrphan; selected != nil {
			for _, r := range selected.OrphaningRules {
				p.Orphans = append(p.Orphans,
					appliedwork.OrphanRule{Group: r.Group, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name})
			}
		}
	default:
		return p, fmt.Errorf("spec.deleteOption.propagationPolicy %q is unknown: write Foreground, Orphan or "+
			"SelectivelyOrphan", s.DeleteOption.PropagationPolicy)
	}
	return p, nil
}

// targetsIn returns the objects of an inventory that need another pass.
func targetsIn(record *v1alpha1.AppliedWork, changes *appliedwork.ChangeSet) Targets {
	targets := Targets{}
	for _, e := range record.Status.AppliedResources {
		change, ok := changes.Get(appliedwork.KeyOf(e.ResourceIdentifier))
		if !ok || e.Kind == "" || e.Version == "" {
			continue
		}
		switch change.Action {
		case appliedwork.ActionPending, appliedwork.ActionBlocked, appliedwork.ActionFailed:
			targets[Target{
				Group: e.Group, Version: e.Version, Kind: e.Kind, Namespace: e.Namespace, Name: e.Name,
			}] = ""
		}
	}
	return targets
}
