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
	// probeID is the ID of a context that does not exist: the store answers if it is not found.
	probeID       = "rsyncgrpc-health-probe"
	probeTimeout  = 5 * time.Second
	probeAge      = time.Second     // the time for which the result of a probe is valid
	watchInterval = 5 * time.Second // of the checks for Watch
)

// health reports whether the engine is Healthy. For an engine without Healthy it probes the store.
type health struct {
	healthv1.UnimplementedHealthServer

	service  *service
	services map[string]bool

	mu      sync.Mutex
	probed  time.Time
	result  error // of the last probe
	serving healthv1.HealthCheckResponse_ServingStatus
}

func newHealth(s *service, server *grpc.Server) *health {
	h := &health{service: s, services: map[string]bool{"": true}}
	for name := range server.GetServiceInfo() {
		h.services[name] = true
	}
	return h
}

// now returns the status of the engine.
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
		klog.FromContext(ctx).Error(err, "Failed the health check of the engine")
	}
	return h.serving
}

// probe returns the result of a recent probe of the store, or of a new one.
func (h *health) probe(ctx context.Context) error {
	if !h.probed.IsZero() && time.Since(h.probed) < probeAge {
		return h.result
	}
	// The caller may allow less time than the store needs.
	probe, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	h.result = h.service.call(probe, "Health", func() error {
		_, err := h.service.engine.Status(probe, probeID)
		if errors.Is(err, rsync.ErrNotFound) {
			return nil
		}
		return err
	})
	h.probed = time.Now()
	return h.result
}

// Check implements the health service.
func (h *health) Check(ctx context.Context, r *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	if !h.services[r.GetService()] {
		return nil, status.Error(codes.NotFound, fmt.Sprintf("unknown service %q: must be %q", r.GetService(),
			rsyncv1.Engine_ServiceDesc.ServiceName))
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
func (h *health) Watch(
	r *healthv1.HealthCheckRequest, stream grpc.ServerStreamingServer[healthv1.HealthCheckResponse],
) error {
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
