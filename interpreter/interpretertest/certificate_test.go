// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpretertest_test

import (
	"context"
	"testing"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/interpretertest"
)

// TestCertificate checks that a client with the CA bundle connects to a server with the
// certificate.
func TestCertificate(t *testing.T) {
	certDir, caBundle := interpretertest.Certificate(t)
	server, err := interpreter.NewServer(interpreter.ServerOptions{Addr: "127.0.0.1:0", CertDir: certDir})
	if err != nil {
		t.Fatal(err)
	}
	if err := interpreter.Register(server, "/w", handler); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-server.Ready()
	target := interpretertest.URL(t, interpreter.ProtocolInterpret, "https://"+server.Addr().String()+"/w", caBundle)
	interpretertest.RunFile(t, target, write(t, replicas))
}
