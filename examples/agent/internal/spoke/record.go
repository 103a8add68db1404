// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
)

// annotationSettings is the annotation of an AppliedWork with the settings that an eviction needs
// of a deleted work.
const annotationSettings = "hub.spokewire.io/work-agent"

// annotationBefore is the name of annotationSettings before the release 0.1.0. It is replaced when
// the work is served.
const annotationBefore = "spokewire.github.io/work-agent"

// settings is the content of the annotation. It also identifies the hub of the AppliedWork.
type settings struct {
	Hub *Origin `json:"hub,omitempty"`
	// Work is the UID on the hub. Over a broker it is always the same for a name.
	Work         types.UID                    `json:"work,omitempty"`
	DeleteOption *workv1.DeleteOption         `json:"deleteOption,omitempty"`
	Executor     *workv1.ManifestWorkExecutor `json:"executor,omitempty"`
	Attempt      *recordedAttempt             `json:"attempt,omitempty"`
	// readOnly are the objects that the work only reads. They are released at once, so they need
	// not be stored.
	readOnly []appliedwork.Key
}

// settingsOf returns the settings of a work.
func settingsOf(w *workv1.ManifestWork, manifests []manifest.Manifest) settings {
	s := settings{Work: w.UID, DeleteOption: w.Spec.DeleteOption, Executor: w.Spec.Executor}
	for i := range manifests {
		if m := &manifests[i]; m.Strategy() == workv1.UpdateStrategyTypeReadOnly {
			s.readOnly = append(s.readOnly, m.Key)
		}
	}
	return s
}

// record returns the AppliedWork of a work, after it has stored the settings and the attempt.
func (c *Cluster) record(ctx context.Context, w *workv1.ManifestWork, s settings) (*v1alpha1.AppliedWork, error) {
	if err := c.survey(ctx); err != nil {
		return nil, err
	}
	name := c.recordName(w.Namespace, w.Name)
	record, err := c.agent.tracker.Ensure(ctx, name,
		v1alpha1.AppliedWorkSpec{WorkNamespace: w.Namespace, WorkName: w.Name})
	if errors.Is(err, appliedwork.ErrTerminating) {
		return nil, c.finish(ctx, name, err)
	}
	if err == nil {
		err = c.mine(record)
	}
	if err != nil {
		return nil, err
	}
	if record.Annotations[v1alpha1.AnnotationEvictionStart] != "" { // the hub has the work again
		if err := c.agent.collector.CancelEviction(ctx, record); err != nil {
			return nil, err
		}
	}
	a := c.attemptOf(name)
	if a == nil || a.served {
		return record, c.remember(ctx, record, s)
	}
	s.Attempt = &a.recordedAttempt
	if err := c.remember(ctx, record, s); err != nil {
		return nil, err
	}
	a.record = record
	return record, nil
}

// finish continues the removal of an earlier AppliedWork of the same name. A work that is created
// again must wait for that.
func (c *Cluster) finish(ctx context.Context, name string, terminating error) error {
	record, err := c.get(ctx, name)
	if err != nil || record == nil {
		return errors.Join(terminating, err)
	}
	if err := c.mine(record); err != nil {
		return err
	}
	if record.DeletionTimestamp == nil {
		if _, err := c.remove(ctx, record, settingsIn(record)); err != nil {
			return fmt.Errorf("%w: %w", terminating, err)
		}
	}
	return fmt.Errorf("%w: its objects are being deleted, and the work is applied after that", terminating)
}

func (c *Cluster) recordName(namespace, name string) string {
	return appliedwork.NameFor(c.options.Hub, namespace, name)
}

// get returns an AppliedWork, which may be terminating, or nil.
func (c *Cluster) get(ctx context.Context, name string) (*v1alpha1.AppliedWork, error) {
	raw, err := c.agent.client.Resource(v1alpha1.GroupVersionResource).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !appliedwork.IsTypeNotServed(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	record := &v1alpha1.AppliedWork{}
	return record, runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, record)
}

// Recorded returns the names of the works in a namespace that have an AppliedWork of this hub.
func (c *Cluster) Recorded(ctx context.Context, namespace string) (names []string, err error) {
	err = c.each(ctx, func(record *v1alpha1.AppliedWork) error {
		if record.Spec.WorkNamespace == namespace {
			names = append(names, record.Spec.WorkName)
		}
		return nil
	})
	return names, err
}

// survey runs once. It records objects that requests of an earlier process created after that
// process had ended, because no inventory has them. AppliedWorks of other hubs are left to their
// agents, which may be using them.
func (c *Cluster) survey(ctx context.Context) error {
	c.started.Lock()
	defer c.started.Unlock()
	if c.surveyed {
		return nil
	}
	found, err := c.agent.collector.Survey(ctx, appliedwork.SurveyOptions{})
	if err != nil {
		return fmt.Errorf("list the objects of earlier processes: %w", err)
	}
	if len(found.Untracked) > 0 {
		err = c.each(ctx, func(record *v1alpha1.AppliedWork) error {
			if c.mine(record) != nil {
				return nil
			}
			return c.agent.tracker.RecordApplied(ctx, record, found.Untracked[record.UID]...)
		})
	}
	c.surveyed = err == nil
	return err
}

// each calls f for the AppliedWorks of this hub, which it recognizes by their names.
func (c *Cluster) each(ctx context.Context, f func(*v1alpha1.AppliedWork) error) error {
	list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		page, err := c.agent.client.Resource(v1alpha1.GroupVersionResource).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list AppliedWorks: %w", err)
		}
		return page, nil
	})
	list.PageBufferSize = 0 // a page may be large
	return list.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		record := &v1alpha1.AppliedWork{}
		raw := obj.(*unstructured.Unstructured)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, record); err != nil {
			return fmt.Errorf("AppliedWork %s: %w", raw.GetName(), err)
		}
		if record.Name != c.recordName(record.Spec.WorkNamespace, record.Spec.WorkName) {
			return nil
		}
		return f(record)
	})
}

func settingsIn(record *v1alpha1.AppliedWork) (s settings) {
	text, ok := record.Annotations[annotationSettings]
	if !ok {
		text = record.Annotations[annotationBefore]
	}
	// An annotation that others have made invalid counts as missing: all objects are then deleted.
	_ = json.Unmarshal([]byte(text), &s)
	return s
}

// remember stores the settings if they have changed. If two hubs write to a new AppliedWork at the
// same time, one of them gets a conflict.
func (c *Cluster) remember(ctx context.Context, record *v1alpha1.AppliedWork, s settings) error {
	s.Hub = &c.options.Origin
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if string(text) == record.Annotations[annotationSettings] {
		return nil
	}
	metadata := map[string]any{"uid": record.UID, "annotations": map[string]any{
		annotationSettings: string(text), annotationBefore: nil,
	}}
	if settingsIn(record).Hub == nil {
		metadata["resourceVersion"] = record.ResourceVersion
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	if _, err = c.agent.client.Resource(v1alpha1.GroupVersionResource).Patch(ctx, record.Name, types.MergePatchType,
		patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("write the settings of the work to AppliedWork %s: %w", record.Name, err)
	}
	if record.Annotations == nil {
		record.Annotations = map[string]string{}
	}
	record.Annotations[annotationSettings] = string(text)
	delete(record.Annotations, annotationBefore)
	return nil
}

// Origin identifies the hub of works. It is stored in AppliedWorks, because their names identify a
// hub only by its --hub-name. Two agents that use the same --hub-name for two hubs would otherwise adopt
// and remove each other's objects.
type Origin struct {
	// Address is the address of the API server or the broker.
	Address string `json:"address"`
	// Sources are the served sources of a broker; none means all.
	Sources []string `json:"sources,omitempty"`
}

// String returns the origin as in messages.
func (o Origin) String() string {
	if len(o.Sources) == 0 {
		return o.Address
	}
	return fmt.Sprintf("%s, source %s", o.Address, strings.Join(o.Sources, " and "))
}

// overlaps reports whether works of one origin may be works of the other. An agent that serves
// another source in addition remains the same.
func (o Origin) overlaps(other Origin) bool {
	return o.Address == other.Address && (len(o.Sources) == 0 || len(other.Sources) == 0 ||
		slices.ContainsFunc(o.Sources, func(source string) bool { return slices.Contains(other.Sources, source) }))
}

// ForeignError reports that an AppliedWork belongs to another hub. The agent does not change it or
// its objects.
type ForeignError struct {
	Record     string
	Hub, Other Origin // of this agent, and of the AppliedWork
}

// Error returns the owner of the AppliedWork and the remedy.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("AppliedWork %s belongs to the hub at %s, and this agent serves %s: start each of the two "+
		"agents with its own --hub-name; if the hub has moved, start this agent with --hub-was %s",
		e.Record, e.Other, e.Hub, e.Other.Address)
}

// mine returns a [*ForeignError] for an AppliedWork that another hub has recorded.
func (c *Cluster) mine(record *v1alpha1.AppliedWork) error {
	hub := settingsIn(record).Hub
	if hub == nil || c.options.Origin.overlaps(*hub) || slices.Contains(c.options.FormerAddresses, hub.Address) {
		return nil
	}
	return &ForeignError{Record: record.Name, Hub: c.options.Origin, Other: *hub}
}
