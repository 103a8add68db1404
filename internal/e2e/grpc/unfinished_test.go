// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// TestUnfinishedMessages checks, for each service, that a connection cannot keep many large messages
// in the server that it does not finish.
func TestUnfinishedMessages(t *testing.T) {
	server, err := grpc.NewServer(grpc.ServerOptions{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e2etest.Background(t, func(ctx context.Context) error { return server.Serve(ctx, listener) })
	for _, path := range []string{
		"/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/spokewire.cloudevents.v1.Broker/Connect", "/io.cloudevents.v1.CloudEventService/Publish",
	} {
		t.Run(path, func(t *testing.T) {
			const limit = 40 << 20
			if sent := sendUnfinished(t, listener.Addr().String(), path); sent > limit {
				t.Errorf("the server accepted %d bytes, want less than %d", sent, limit)
			}
		})
	}
}

// sendUnfinished sends messages of 15 MiB without their last byte on 16 streams, until the server
// closes the connection. It returns the number of bytes that the server's windows allowed.
func sendUnfinished(t *testing.T, addr, path string) (sent int) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	const size, streams = 15 << 20, 16
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	windows := map[uint32]int{0: 65535}
	left := map[uint32]int{}
	for id := uint32(1); id < 2*streams; id += 2 {
		block.Reset()
		for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "x"},
			{"content-type", "application/grpc"}, {"te", "trailers"}} {
			if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
				t.Fatal(err)
			}
		}
		if err := framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true,
		}); err != nil {
			return sent
		}
		head := binary.BigEndian.AppendUint32([]byte{0}, size)
		if err := framer.WriteData(id, false, head); err != nil {
			return sent
		}
		windows[0] -= len(head)
		windows[id], left[id] = 65535-len(head), size-1
	}
	chunk := make([]byte, 16<<10)
	for {
		for id := range left {
			for n := min(len(chunk), windows[0], windows[id], left[id]); n > 0; n = min(n, windows[0], windows[id], left[id]) {
				if framer.WriteData(id, false, chunk[:n]) != nil {
					return sent
				}
				windows[0], windows[id], left[id], sent = windows[0]-n, windows[id]-n, left[id]-n, sent+n
			}
		}
		f, err := framer.ReadFrame()
		if err != nil {
			return sent
		}
		switch f := f.(type) {
		case *http2.WindowUpdateFrame:
			windows[f.StreamID] += int(f.Increment)
		case *http2.SettingsFrame:
			if !f.IsAck() && framer.WriteSettingsAck() != nil {
				return sent
			}
		case *http2.RSTStreamFrame:
			delete(left, f.StreamID)
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				delete(left, f.StreamID)
			}
		}
		if len(left) == 0 {
			return sent
		}
	}
}
