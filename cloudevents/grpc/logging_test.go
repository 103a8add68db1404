// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/internal/grpcwire"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

// TestRefusalsAreLogged checks that an operator sees refused clients, once each, without a token.
func TestRefusalsAreLogged(t *testing.T) {
	s := newSecure(t)
	o := grpc.ServerOptions{ClientCAFile: s.caFile, Tokens: tokens{secret}, MaxQueueBytes: 1}
	// The other server reads its files meanwhile.
	o.CertFile, o.KeyFile = s.ca.Issue(t, "server").Write(t, s.folder, "logged")
	server, err := grpc.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	server.SetStall(time.Millisecond)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = listener.Addr().String()
	var log bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	served := make(chan error)
	go func() { served <- server.Serve(ctx, listener) }()

	for range 3 {
		_ = connectWith(t, grpc.Options{Address: s.addr, CAFile: s.caFile, Token: "other" + secret}, ownFilter)
		_ = connectWith(t, s.options(t, s.ca.Issue(t, "cluster1")), otherFilter)
	}
	_ = connectWith(t, s.options(t, certtest.New(t).Issue(t, "cluster1")), ownFilter)
	event, err := grpcwire.AppendEvent(nil, newEvent())
	if err != nil {
		t.Fatal(err)
	}
	stalled := make(chan struct{})
	conn := connect(t, newTransport(t, s.options(t, s.ca.Issue(t, "cluster1"))),
		func(cloudevents.Message) { <-stalled }, ownFilter)
	waitFor(t, "the end of the connection", func() bool {
		_ = server.PublishRaw("/sources/hub/clusters/cluster1/manifests", event)
		return conn.Err() != nil
	})
	close(stalled)
	if err := os.WriteFile(o.CertFile, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := connectWith(t, s.options(t, s.ca.Issue(t, "cluster1")), ownFilter); err != nil {
		t.Errorf("while the server's certificate is unreadable, Connect returned %v", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	text := log.String()
	for part, want := range map[string]int{
		`"Refused a client" err="unknown token" reason="not authenticated" client="127.0.0.1/32"`: 1,
		`reason="TLS handshake failed" client="127.0.0.1/32"`:                                     1,
		`reason="access denied" client="cluster1"`:                                                1,
		`reason="its queue is full" client="cluster1"`:                                            1,
		`"Failed to read certificates, using the previous ones" err="CertFile `:                   1,
		secret: 0,
	} {
		if got := strings.Count(text, part); got != want {
			t.Errorf("%d lines have %q, want %d", got, part, want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
