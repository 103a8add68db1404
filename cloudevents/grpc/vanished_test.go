// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gogrpc "google.golang.org/grpc"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/ocm"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// vanishing is a connection of a client that may vanish: then its link stays open, and nothing from
// the server has an answer.
type vanishing struct {
	net.Conn
	vanished atomic.Bool
	ended    chan struct{} // closed at the end of the link
}

func (v *vanishing) Read(b []byte) (int, error) {
	for {
		n, err := v.Conn.Read(b)
		if err != nil {
			close(v.ended)
		}
		if err != nil || !v.vanished.Load() {
			return n, err
		}
	}
}

func (v *vanishing) Write(b []byte) (int, error) {
	if v.vanished.Load() {
		return len(b), nil
	}
	return v.Conn.Write(b)
}

// TestVanishedClient checks that the server ends the link of a client of each service that vanishes,
// although no end of the link arrives, and that its subscription ends too.
func TestVanishedClient(t *testing.T) {
	const topic = "sources/hub/clusters/c1/sourceevents"
	for method, request := range map[string]any{
		grpc.ConnectMethod:  &grpcwire.ClientFrame{Subscribe: &grpcwire.Subscribe{Filters: []string{topic}}},
		ocm.MethodSubscribe: &grpcwire.SubscriptionRequest{ClusterName: "c1", DataType: ocm.DataType},
	} {
		withServer(t, grpc.ServerOptions{MaxQueueBytes: 1}, func(t *testing.T, s *plainServer) {
			v := &vanishing{ended: make(chan struct{})}
			cc := s.dialWith("c1", func(ctx context.Context) (_ net.Conn, err error) {
				if v.Conn != nil {
					return nil, io.ErrClosedPipe // another attempt
				}
				v.Conn, err = s.listener.DialContext(ctx)
				return v, err
			})
			stream, err := cc.NewStream(t.Context(), &gogrpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.SendMsg(request); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute) // pings have answers
			v.vanished.Store(true)
			begin := time.Now()
			<-v.ended
			if passed := time.Since(begin); passed > 40*time.Second {
				t.Errorf("%s: the link ended after %v", method, passed)
			}
			synctest.Wait()
			for range 2 { // a subscription would have room for the first one
				if err := s.PublishRaw(topic, []byte("x")); err != nil {
					t.Errorf("%s: the subscription is left: %v", method, err)
				}
			}
		})
	}
}
