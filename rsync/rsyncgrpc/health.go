// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

const (
	// probeID is a context that nobody has: its status shows that the store answers.
	probeID = "rsyncgrpc-health-probe"
	// probeTimeout is how long the store may take, probeAge how long what it said counts, and watchInterval how often it is asked for
	// those who watch.
	probeTimeout  = 5 * time.Second
	probeAge      = time.Second
	watchInterval = 5 * time.Second
)

// health says whether the engine works: as it says itself, which costs the store nothing, or else, of an engine elsewhere, whether
// its store answers. It asks only when it is asked.
type health struct {
	healthv1.UnimplementedHealthServer

	service  *Service
	services map[string]bool

	mu      sync.Mutex
	asked   time.Time // the store, by probe
	said    error     // what it said
	serving healthv1.HealthCheckResponse_ServingStatus
}

func newHealth(s *Service, server *grpc.Server) *health {
	h := &health{service: s, services: map[string]bool{"": true}}
	for name := range server.GetServiceInfo() {
		h.services[name] = true
	}
	return h
}

// now returns how the engine is.
func (h *health) now(ctx context.Context) healthv1.HealthCheckResponse_ServingStatus {
	if h.service.stopping.Err() != nil {
		return healthv1.HealthCheckResponse_NOT_SERVING
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.serving
	var err error
	if engine, ok := h.service.engine.(interface{ Healthy() error }); ok {
		err = engine.Healthy()
	} else {
		err = h.probe(ctx)
	}
	if h.serving = healthv1.HealthCheckResponse_SERVING; err != nil {
		h.serving = healthv1.HealthCheckResponse_NOT_SERVING
	}
	if err != nil && before != h.serving {
		klog.FromContext(ctx).Error(err, "The engine does not work, so the server is not healthy")
	}
	return h.serving
}

// probe returns what the store said a moment ago, or asks it.
func (h *health) probe(ctx context.Context) error {
	if !h.asked.IsZero() && time.Since(h.asked) < probeAge {
		return h.said
	}
	// Who asks may have less patience than the store needs; that says nothing about the store.
	probe, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	h.said = h.service.call(probe, "Health", false, func() error {
		_, err := h.service.engine.Status(probe, probeID)
		if errors.Is(err, rsync.ErrNotFound) {
			return nil
		}
		return err
	})
	h.asked = time.Now()
	return h.said
}

// Check implements the health service.
func (h *health) Check(ctx context.Context, r *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	if !h.services[r.GetService()] {
		return nil, status.Error(codes.NotFound, fmt.Sprintf("there is no service %q; %q is one", r.GetService(), rsyncv1.Engine_ServiceDesc.ServiceName))
	}
	return &healthv1.HealthCheckResponse{Status: h.now(ctx)}, nil
}

// List implements the health service.
func (h *health) List(ctx context.Context, _ *healthv1.HealthListRequest) (*healthv1.HealthListResponse, error) {
	now := h.now(ctx)
	out := &healthv1.HealthListResponse{Statuses: map[string]*healthv1.HealthCheckResponse{}}
	for name := range h.services {
		out.Statuses[name] = &healthv1.HealthCheckResponse{Status: now}
	}
	return out, nil
}

// Watch implements the health service.
func (h *health) Watch(r *healthv1.HealthCheckRequest, stream grpc.ServerStreamingServer[healthv1.HealthCheckResponse]) error {
	ctx, cancel := h.service.during(stream.Context())
	defer cancel()
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	last := healthv1.HealthCheckResponse_UNKNOWN
	for {
		now := healthv1.HealthCheckResponse_SERVICE_UNKNOWN
		if h.services[r.GetService()] {
			now = h.now(ctx)
		}
		if now != last {
			if err := stream.Send(&healthv1.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			last = now
		}
		if err := h.service.stopping.Err(); err != nil {
			return toStatus(errStopping)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
			continue
		}
		if h.service.stopping.Err() == nil {
			return toStatus(context.Cause(ctx))
		}
	}
}
