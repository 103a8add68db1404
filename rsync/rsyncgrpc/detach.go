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
		func(c appcontext.ClusterID) error {
			return s.engine.Detach(ctx, r.GetId(), c)
		})
}

func (s *service) Attach(ctx context.Context, r *rsyncv1.AttachRequest) (*rsyncv1.AttachResponse, error) {
	return &rsyncv1.AttachResponse{}, s.onCluster(ctx, "Attach", r.GetId(), r.GetCluster(),
		func(c appcontext.ClusterID) error {
			return s.engine.Attach(ctx, r.GetId(), c)
		})
}

func (s *service) Forget(ctx context.Context, r *rsyncv1.ForgetRequest) (*rsyncv1.ForgetResponse, error) {
	return &rsyncv1.ForgetResponse{}, s.onCluster(ctx, "Forget", "", r.GetCluster(),
		func(c appcontext.ClusterID) error {
			return s.engine.Forget(ctx, c)
		})
}

// onCluster makes a call about one cluster. An empty ID means all app contexts.
func (s *service) onCluster(
	ctx context.Context, method, id string, cluster *rsyncv1.ClusterID, f func(appcontext.ClusterID) error,
) error {
	return s.call(ctx, method, false, func() error {
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
	return s.allowed(ctx, "ListDetached", false, VerbList, "", func() error {
		end, err := s.longTurn(ctx)
		if err != nil {
			return err
		}
		defer end()
		all, err := s.engine.Detached(ctx)
		if err != nil {
			return err
		}
		return deliver(ctx, remnantMessages(all), stream.Send, s.options.WatchLag)
	})
}

func remnantMessages(all []rsync.Remnant) iter.Seq[*rsyncv1.ListDetachedResponse] {
	return func(yield func(*rsyncv1.ListDetachedResponse) bool) {
		for page := range pages(remnantParts(all)) {
			if !yield(&rsyncv1.ListDetachedResponse{Remnants: page}) {
				return
			}
		}
	}
}

// remnantParts splits large remnants.
func remnantParts(all []rsync.Remnant) iter.Seq[*rsyncv1.Remnant] {
	return func(yield func(*rsyncv1.Remnant) bool) {
		for i := range all {
			r := &all[i]
			part := &rsyncv1.Remnant{
				AppContextId: r.AppContextID, Cluster: clusterMessage(r.Cluster), Since: timeMessage(r.Since),
				Reason: string(r.Reason), Message: r.Message,
			}
			for objects := range pagesOf(r.Objects,
				func(o *appcontext.Object) *rsyncv1.Object { return objectMessage(*o) }) {
				if part.Objects != nil {
					if !yield(part) {
						return
					}
					part = &rsyncv1.Remnant{Continued: true}
				}
				part.Objects = objects
			}
			if !yield(part) {
				return
			}
		}
	}
}

// Detach removes a cluster from a context: see [rsync.Engine.Detach].
func (c *Client) Detach(ctx context.Context, id string, cluster appcontext.ClusterID) error {
	return c.onCluster(ctx, id, cluster, func() error {
		_, err := c.engine.Detach(ctx, &rsyncv1.DetachRequest{Id: id, Cluster: clusterMessage(cluster)})
		return err
	})
}

// Attach undoes Detach: see [rsync.Engine.Attach].
func (c *Client) Attach(ctx context.Context, id string, cluster appcontext.ClusterID) error {
	return c.onCluster(ctx, id, cluster, func() error {
		_, err := c.engine.Attach(ctx, &rsyncv1.AttachRequest{Id: id, Cluster: clusterMessage(cluster)})
		return err
	})
}

// Forget ends the cleanups of a cluster: see [rsync.Engine.Forget].
func (c *Client) Forget(ctx context.Context, cluster appcontext.ClusterID) error {
	return c.onCluster(ctx, "", cluster, func() error {
		_, err := c.engine.Forget(ctx, &rsyncv1.ForgetRequest{Cluster: clusterMessage(cluster)})
		return err
	})
}

// onCluster makes a call with retries. A repeated call has no further effect.
func (c *Client) onCluster(ctx context.Context, id string, cluster appcontext.ClusterID, call func() error) error {
	if err := checkText("the cluster", cluster.Provider, cluster.Name); err != nil {
		return err
	}
	return c.about(ctx, id, call)
}

// Detached returns the pending cleanups of detached clusters: see [rsync.Engine.Detached].
func (c *Client) Detached(ctx context.Context) ([]rsync.Remnant, error) {
	var all []rsync.Remnant
	_, err := c.retry(ctx, c.options.RetryTimeout, func() error {
		all = []rsync.Remnant{}
		stream, err := c.engine.ListDetached(ctx, &rsyncv1.ListDetachedRequest{})
		if err != nil {
			return err
		}
		return receive(stream.Recv, func(m *rsyncv1.ListDetachedResponse) { all = withRemnants(all, m.GetRemnants()) })
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func withRemnants(all []rsync.Remnant, parts []*rsyncv1.Remnant) []rsync.Remnant {
	for _, m := range parts {
		if !m.GetContinued() || len(all) == 0 {
			all = append(all, rsync.Remnant{
				AppContextID: m.GetAppContextId(), Cluster: clusterOf(m.GetCluster()), Since: timeOf(m.GetSince()),
				Reason: rsync.Reason(m.GetReason()), Message: m.GetMessage(),
			})
		}
		r := &all[len(all)-1]
		for _, o := range m.GetObjects() {
			r.Objects = append(r.Objects, objectOf(o))
		}
	}
	return all
}
