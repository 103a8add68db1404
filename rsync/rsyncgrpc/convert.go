// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

// messagesOf returns the messages of values, or nil if there are none.
func messagesOf[V, M any](values []V, message func(*V) *M) []*M {
	if len(values) == 0 {
		return nil
	}
	out := make([]*M, len(values))
	for i := range values {
		out[i] = message(&values[i])
	}
	return out
}

// valuesOf returns the values of messages, or nil if there are none.
func valuesOf[M, V any](messages []*M, value func(*M) V) []V {
	if len(messages) == 0 {
		return nil
	}
	out := make([]V, len(messages))
	for i, m := range messages {
		out[i] = value(m)
	}
	return out
}

func appContextMessage(c *appcontext.AppContext) *rsyncv1.AppContext {
	m := c.Meta
	return &rsyncv1.AppContext{Id: c.ID, Apps: messagesOf(c.Apps, appMessage), Meta: &rsyncv1.Meta{
		Project: m.Project, CompositeApp: m.CompositeApp, Version: m.Version, Release: m.Release,
		DeploymentIntentGroup: m.DeploymentIntentGroup, Namespace: m.Namespace, Level: m.Level,
		ChildContextIds: m.ChildContextIDs, LogicalCloud: m.LogicalCloud,
		LogicalCloudNamespace: m.LogicalCloudNamespace, LogicalCloudLevel: m.LogicalCloudLevel,
	}}
}

func appMessage(a *appcontext.App) *rsyncv1.App {
	return &rsyncv1.App{
		Name: a.Name,
		DependsOn: messagesOf(a.DependsOn, func(d *appcontext.Dependency) *rsyncv1.Dependency {
			return &rsyncv1.Dependency{App: d.App, Status: string(d.Status), Wait: durationpb.New(d.Wait)}
		}),
		Clusters: messagesOf(a.Clusters, func(c *appcontext.Cluster) *rsyncv1.Cluster {
			return &rsyncv1.Cluster{Id: clusterMessage(&c.ClusterID), Resources: messagesOf(c.Resources, resourceMessage)}
		}),
	}
}

func resourceMessage(r *appcontext.Resource) *rsyncv1.Resource {
	out := &rsyncv1.Resource{
		Object: objectMessage(&r.Object), Hook: string(r.Hook), Manifest: r.Manifest,
		Wave: int32(r.Wave), //nolint:gosec // the client has validated it
	}
	for _, policy := range r.DeletePolicies {
		out.DeletePolicies = append(out.DeletePolicies, string(policy))
	}
	return out
}

// appContextOf returns an error only for values that a context cannot represent.
func appContextOf(m *rsyncv1.AppContext) (*appcontext.AppContext, error) {
	if m == nil {
		return nil, fmt.Errorf("%w: app_context: must be set", rsync.ErrInvalidInput)
	}
	meta := m.GetMeta()
	out := &appcontext.AppContext{ID: m.Id, Meta: appcontext.Meta{
		Project: meta.GetProject(), CompositeApp: meta.GetCompositeApp(), Version: meta.GetVersion(),
		Release: meta.GetRelease(), DeploymentIntentGroup: meta.GetDeploymentIntentGroup(),
		Namespace: meta.GetNamespace(), Level: meta.GetLevel(), ChildContextIDs: meta.GetChildContextIds(),
		LogicalCloud: meta.GetLogicalCloud(), LogicalCloudNamespace: meta.GetLogicalCloudNamespace(),
		LogicalCloudLevel: meta.GetLogicalCloudLevel(),
	}}
	for _, a := range m.Apps {
		app := appcontext.App{Name: a.GetName(), Clusters: valuesOf(a.GetClusters(), clusterContentOf)}
		for _, d := range a.GetDependsOn() {
			if d.Wait != nil && (d.Wait.CheckValid() != nil || durationpb.New(d.Wait.AsDuration()).Seconds != d.Wait.Seconds) {
				return nil, fmt.Errorf("%w: app %q: the wait for app %q is out of range", rsync.ErrInvalidInput,
					app.Name, d.GetApp())
			}
			app.DependsOn = append(app.DependsOn, appcontext.Dependency{
				App: d.GetApp(), Status: appcontext.OpStatus(d.GetStatus()), Wait: d.GetWait().AsDuration(),
			})
		}
		out.Apps = append(out.Apps, app)
	}
	return out, nil
}

func clusterContentOf(m *rsyncv1.Cluster) appcontext.Cluster {
	return appcontext.Cluster{ClusterID: clusterOf(m.GetId()), Resources: valuesOf(m.GetResources(), resourceOf)}
}

func resourceOf(m *rsyncv1.Resource) appcontext.Resource {
	out := appcontext.Resource{Hook: appcontext.Hook(m.GetHook()), Wave: int(m.GetWave()), Manifest: m.GetManifest()}
	for _, policy := range m.GetDeletePolicies() {
		out.DeletePolicies = append(out.DeletePolicies, appcontext.HookDeletePolicy(policy))
	}
	if m.Object != nil {
		out.Object = objectOf(m.Object)
	} else if object, err := appcontext.ParseObject(m.GetManifest()); err == nil {
		out.Object = object // otherwise validation reports the problem of the manifest
	}
	return out
}

func clusterMessage(c *appcontext.ClusterID) *rsyncv1.ClusterID {
	return &rsyncv1.ClusterID{Provider: c.Provider, Name: c.Name}
}

func clusterOf(m *rsyncv1.ClusterID) appcontext.ClusterID {
	return appcontext.ClusterID{Provider: m.GetProvider(), Name: m.GetName()}
}

func objectMessage(o *appcontext.Object) *rsyncv1.Object {
	return &rsyncv1.Object{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

func objectOf(m *rsyncv1.Object) appcontext.Object {
	return appcontext.Object{Group: m.GetGroup(), Kind: m.GetKind(), Namespace: m.GetNamespace(), Name: m.GetName()}
}

func refMessage(r *rsync.EventRef) *rsyncv1.EventRef {
	if r == nil {
		return nil
	}
	return &rsyncv1.EventRef{Id: r.AppContextID, Seq: r.Seq}
}

func refOf(m *rsyncv1.EventRef) rsync.EventRef {
	return rsync.EventRef{AppContextID: m.GetId(), Seq: m.GetSeq()}
}

func optionalRefOf(m *rsyncv1.EventRef) *rsync.EventRef {
	if m == nil {
		return nil
	}
	return new(refOf(m))
}

// checkText rejects texts that a message cannot contain.
func checkText(what string, texts ...string) error {
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%w: %s %q is not UTF-8", rsync.ErrInvalidInput, what, text)
		}
	}
	return nil
}

// checkMeta is checkText for the values that validation does not check.
func checkMeta(m *appcontext.Meta) error {
	return checkText("the meta value", append([]string{
		m.Project, m.CompositeApp, m.Version, m.Release, m.DeploymentIntentGroup, m.Namespace, m.Level, m.LogicalCloud,
		m.LogicalCloudNamespace, m.LogicalCloudLevel,
	}, m.ChildContextIDs...)...)
}
