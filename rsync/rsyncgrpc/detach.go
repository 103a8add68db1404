// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"fmt"
	"iter"

	"google.golang.org/grpc"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

func (s *service) Detach(ctx context.Context, r *rsyncv1.DetachRequest) (*rsyncv1.DetachResponse, error) {
	return &rsyncv1.DetachResponse{}, s.onCluster(ctx, "Detach", r.GetId(), r.GetCluster(),
		func(c appcontext.ClusterID) error { return s.engine.Detach(ctx, r.GetId(), c) })
}

func (s *service) Attach(ctx context.Context, r *rsyncv1.AttachRequest) (*rsyncv1.AttachResponse, error) {
	return &rsyncv1.AttachResponse{}, s.onCluster(ctx, "Attach", r.GetId(), r.GetCluster(),
		func(c appcontext.ClusterID) error { return s.engine.Attach(ctx, r.GetId(), c) })
}

func (s *service) Forget(ctx context.Context, r *rsyncv1.ForgetRequest) (*rsyncv1.ForgetResponse, error) {
	return &rsyncv1.ForgetResponse{}, s.onCluster(ctx, "Forget", "", r.GetCluster(),
		func(c appcontext.ClusterID) error { return s.engine.Forget(ctx, c) })
}

// onCluster makes a call about one cluster. An empty ID means all app contexts.
func (s *service) onCluster(
	ctx context.Context, method, id string, cluster *rsyncv1.ClusterID, f func(appcontext.ClusterID) error,
) error {
	return s.call(ctx, method, func() error {
		c := clusterOf(cluster)
		if err := s.authorizeOn(ctx, VerbDetach, id, c); err != nil {
			return err
		}
		if c.Provider == "" || c.Name == "" {
			return fmt.Errorf("%w: cluster: %q: must have a provider and a name", rsync.ErrInvalidInput, c)
		}
		return f(c)
	})
}

func (s *service) ListDetached(
	_ *rsyncv1.ListDetachedRequest, stream grpc.ServerStreamingServer[rsyncv1.ListDetachedResponse],
) error {
	ctx := stream.Context()
	return s.allowed(ctx, "ListDetached", VerbList, "", func() error {
		end, err := s.longTurn(ctx)
		if err != nil {
			return err
		}
		defer end()
		all, err := s.engine.Detached(ctx)
		if err != nil {
			return err
		}
		messages := each(pages(remnantParts(all)), func(page []*rsyncv1.Remnant) *rsyncv1.ListDetachedResponse {
			return &rsyncv1.ListDetachedResponse{Remnants: page}
		})
		return deliver(ctx, s, messages, stream.Send)
	})
}

func remnantParts(all []rsync.Remnant) iter.Seq[*rsyncv1.Remnant] {
	objects := func(r *rsync.Remnant) iter.Seq[[]*rsyncv1.Object] { return pagesOf(r.Objects, objectMessage) }
	return partsOf(all, objects, func(r *rsync.Remnant, objects []*rsyncv1.Object, continued bool) *rsyncv1.Remnant {
		if continued {
			return &rsyncv1.Remnant{Continued: true, Objects: objects}
		}
		return &rsyncv1.Remnant{
			AppContextId: r.AppContextID, Cluster: clusterMessage(&r.Cluster), Since: timeMessage(r.Since),
			Reason: string(r.Reason), Message: r.Message, Objects: objects,
		}
	})
}

// Detach removes a cluster from a context: see [rsync.Engine.Detach].
func (c *Client) Detach(ctx context.Context, id string, cluster appcontext.ClusterID) error {
	return onCluster(ctx, c, id, cluster, c.engine.Detach,
		&rsyncv1.DetachRequest{Id: id, Cluster: clusterMessage(&cluster)})
}

// Attach undoes Detach: see [rsync.Engine.Attach].
func (c *Client) Attach(ctx context.Context, id string, cluster appcontext.ClusterID) error {
	return onCluster(ctx, c, id, cluster, c.engine.Attach,
		&rsyncv1.AttachRequest{Id: id, Cluster: clusterMessage(&cluster)})
}

// Forget ends the cleanups of a cluster: see [rsync.Engine.Forget].
func (c *Client) Forget(ctx context.Context, cluster appcontext.ClusterID) error {
	return onCluster(ctx, c, "", cluster, c.engine.Forget, &rsyncv1.ForgetRequest{Cluster: clusterMessage(&cluster)})
}

// onCluster makes a call, which has no further effect if it is repeated.
func onCluster[Q, A any](
	ctx context.Context, c *Client, id string, cluster appcontext.ClusterID,
	call func(context.Context, *Q, ...grpc.CallOption) (*A, error), q *Q,
) error {
	if err := checkText("the cluster", cluster.Provider, cluster.Name); err != nil {
		return err
	}
	_, err := about(ctx, c, id, call, q)
	return err
}

// Detached returns the pending cleanups of detached clusters: see [rsync.Engine.Detached].
func (c *Client) Detached(ctx context.Context) ([]rsync.Remnant, error) {
	return collect(ctx, c, &rsyncv1.ListDetachedRequest{}, withRemnants, c.engine.ListDetached)
}

func withRemnants(all []rsync.Remnant, page *rsyncv1.ListDetachedResponse) []rsync.Remnant {
	for _, m := range page.GetRemnants() {
		if !m.GetContinued() || len(all) == 0 {
			all = append(all, rsync.Remnant{
				AppContextID: m.GetAppContextId(), Cluster: clusterOf(m.GetCluster()), Since: timeOf(m.GetSince()),
				Reason: rsync.Reason(m.GetReason()), Message: m.GetMessage(),
			})
		}
		r := &all[len(all)-1]
		r.Objects = append(r.Objects, valuesOf(m.GetObjects(), objectOf)...)
	}
	return all
}
