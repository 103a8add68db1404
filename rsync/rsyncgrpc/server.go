// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/connlimit"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/emcopb"
)

const (
	// maxHeaderBytes limits the header of a call: one byte of a frame may be 150 bytes in memory.
	maxHeaderBytes = 4 << 10
	// bufferBytes is the size of each buffer of a connection. gRPC's default of 32 KiB would be
	// most of the memory of a silent connection.
	bufferBytes = 8 << 10
)

// ErrServerStarted is returned by the second call of Start.
var ErrServerStarted = errors.New("the server has already been started")

// Server serves an engine. Its methods may be called from any goroutine.
type Server struct {
	engine  Engine
	options ServerOptions
	started atomic.Bool
	ready   chan struct{}
	addr    net.Addr // set before ready is closed
}

// NewServer returns a server. It returns rsync.ErrInvalidInput for invalid options.
func NewServer(engine Engine, options ServerOptions) (*Server, error) {
	if engine == nil {
		return nil, fmt.Errorf("%w: rsyncgrpc.NewServer needs an engine", rsync.ErrInvalidInput)
	}
	if err := options.validate(); err != nil {
		return nil, err
	}
	return &Server{engine: engine, options: options.withDefaults(), ready: make(chan struct{})}, nil
}

// Ready returns a channel that is closed when the server accepts connections.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr returns the address of the server, or nil before Ready.
func (s *Server) Addr() net.Addr {
	select {
	case <-s.ready:
		return s.addr
	default:
		return nil
	}
}

// Start serves until ctx ends. It then ends waits and watches, waits
// [ServerOptions].ShutdownTimeout for other calls in progress, and returns nil. It returns an error
// if certificates cannot be read, if it cannot listen, or if metrics cannot be registered. A second
// call returns [ErrServerStarted].
func (s *Server) Start(ctx context.Context) error {
	if s.started.Swap(true) {
		return ErrServerStarted
	}
	services, err := newService(s.engine, s.options.Options)
	if err != nil {
		return err
	}
	defer services.end()
	server, err := s.server(ctx, services.metrics)
	if err != nil {
		return err
	}
	services.register(server)
	healthv1.RegisterHealthServer(server, newHealth(services, server))
	if s.options.Reflection {
		registerReflection(server)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.options.Addr)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", s.options.Addr, err)
	}
	s.addr = listener.Addr()
	served := make(chan error, 1)
	logger := klog.FromContext(ctx)
	limited := connlimit.New(listener, s.options.MaxConnections, func(peer net.Addr) {
		logger.V(1).Info("Closed a connection", "peer", peer.String(), "limit", s.options.MaxConnections)
	})
	go func() { served <- server.Serve(limited) }()
	close(s.ready)
	logger.Info("Started serving an rsync engine", "address", listener.Addr().String(), "tls", !s.options.Insecure)
	if (s.options.Insecure || s.options.AnyClient) && !isLoopback(listener.Addr()) {
		logger.Error(nil, "Started without client authentication: set ClientCAFile", "address",
			listener.Addr().String(), "tls", !s.options.Insecure, "authorizer", s.options.Authorizer != nil)
	}
	select {
	case err := <-served:
		server.Stop()
		return fmt.Errorf("serve at %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	services.end()
	s.stop(ctx, server)
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // ctx ended before it served
		return fmt.Errorf("serve at %s: %w", listener.Addr(), err)
	}
	return nil
}

func (s *Server) server(ctx context.Context, metrics *metrics) (*grpc.Server, error) {
	// Calls carry the logger, and outlive ctx while the server stops.
	logger := klog.FromContext(ctx)
	// The largest request and the largest answer must fit, with the memory that gRPC uses for them.
	largest := dataFactor*(s.options.MaxMessageBytes+s.options.MaxMessageBytes/64) + callBytes
	budget := newBudget(max(s.options.MaxCallBytes, largest), logger, metrics.overBudget)
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(proto.Name)}),
		grpc.MaxRecvMsgSize(s.options.MaxMessageBytes),
		grpc.MaxConcurrentStreams(s.options.MaxConcurrentStreams),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ReadBufferSize(bufferBytes), grpc.WriteBufferSize(bufferBytes),
		grpc.ConnectionTimeout(connlimit.HandshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: s.options.MinKeepAlive, PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: s.options.KeepAlive, Timeout: s.options.KeepAlive / 2}),
		grpc.WaitForHandlers(true),
		grpc.InTapHandle(bodyDeadline(s.options.RequestTimeout)),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo,
			handle grpc.UnaryHandler) (any, error) {
			bodyArrived(ctx)
			answer, err := handle(klog.NewContext(ctx, logger), r)
			if err == nil {
				budget.answer(ctx, answer)
			}
			return answer, err
		}),
		grpc.ChainStreamInterceptor(func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo,
			handle grpc.StreamHandler) error {
			return handle(server, &callStream{stream, klog.NewContext(stream.Context(), logger), budget})
		}),
	}
	creds := insecure.NewCredentials()
	if !s.options.Insecure {
		var err error
		creds, err = serverTLS(&s.options, func(err error) {
			metrics.certificateError()
			logger.Error(err, "Failed to reload files, the previous ones stay in effect")
		})
		if err != nil {
			return nil, err
		}
	}
	options = append(options, grpc.Creds(budgetCredentials{creds, budget}))
	return grpc.NewServer(append(options, s.options.ServerOptions...)...), nil
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

func (s *Server) stop(ctx context.Context, server *grpc.Server) {
	timer := time.AfterFunc(s.options.ShutdownTimeout, func() {
		klog.FromContext(ctx).Info("Cut off calls after the shutdown timeout", "after", s.options.ShutdownTimeout)
		server.Stop()
	})
	defer timer.Stop()
	server.GracefulStop()
}

// registerReflection lets clients request the services and their messages, including EMCO's.
func registerReflection(server *grpc.Server) {
	options := reflection.ServerOptions{Services: server, DescriptorResolver: bothRegistries{}}
	reflectionv1.RegisterServerReflectionServer(server, reflection.NewServerV1(options))
	reflectionv1alpha.RegisterServerReflectionServer(server, reflection.NewServer(options))
}

// bothRegistries finds EMCO's files in their own registry, and others in that of the process.
type bothRegistries struct{}

// FindFileByPath implements protodesc.Resolver.
func (bothRegistries) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if f, err := emcopb.Registry.Files.FindFileByPath(path); err == nil {
		return f, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

// FindDescriptorByName implements protodesc.Resolver.
func (bothRegistries) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := emcopb.Registry.Files.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}
