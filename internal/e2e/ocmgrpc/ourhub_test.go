// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/ocmgrpc"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// ourHub is a source and a gRPC server of this SDK in the process of the test.
type ourHub struct {
	worktyped.ManifestWorkInterface // of the running source
	t                               *testing.T
	ca                              *certtest.Authority
	file                            string // with the works
	link                            *tcpproxy.Proxy
	stop                            func()
}

func startOurHub(t *testing.T) *ourHub {
	t.Helper()
	h := &ourHub{t: t, ca: certtest.New(t), file: filepath.Join(t.TempDir(), "works.db")}
	h.link = tcpproxy.Start(t, h.start())
	return h
}

// restart kills the source and the server, and starts them again.
func (h *ourHub) restart() {
	h.t.Helper()
	h.link.Block()
	h.link.Cut()
	h.stop()
	h.link.Forward(h.start())
	h.link.Unblock()
}

// start starts the source and the server, and returns the server's address.
func (h *ourHub) start() (addr string) {
	t := h.t
	t.Helper()
	store, err := boltstore.Open(h.file, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	o := grpc.ServerOptions{ClientCAFile: h.ca.Write(t, folder, "ca"), Tokens: token("secret")}
	o.CertFile, o.KeyFile = h.ca.Issue(t, "hub", "localhost").Write(t, folder, "server")
	server, err := grpc.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	source, err := work.NewSource(server.Transport(), work.SourceOptions{
		SourceID: "hub", Profile: codec.ManifestBundle, Store: store, DrainTimeout: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.stop = e2etest.Background(t, func(ctx context.Context) error {
		defer func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}()
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return server.Serve(ctx, listener) })
		group.Go(func() error { return source.Start(ctx) })
		return group.Wait()
	})
	if err := source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.ManifestWorkInterface = source.Clientset().WorkV1().ManifestWorks(cluster)
	return listener.Addr().String()
}

// credentials writes the files of the cluster's agent.
func (h *ourHub) credentials() ocmgrpc.Credentials {
	h.t.Helper()
	folder := h.t.TempDir()
	c := ocmgrpc.Credentials{CAFile: h.ca.Write(h.t, folder, "ca")}
	group := "system:open-cluster-management:" + cluster // as OCM's registration does
	c.CertFile, c.KeyFile = h.ca.IssueFor(h.t, group+":agent1", group).Write(h.t, folder, "agent")
	return c
}

// TestOCMAgentOnServer runs OCM's real agent on a server of this SDK.
func TestOCMAgentOnServer(t *testing.T) {
	hub, managed := startOurHub(t), ocmgrpc.StartManaged(t)
	credentials := hub.credentials()
	steps := ocmgrpc.Steps{
		Works: hub, Managed: managed, Link: hub.link, Restart: hub.restart, Slow: true,
		Start: func() ocmgrpc.Agent {
			return ocmgrpc.StartAgent(t, hub.link.Addr(), cluster, credentials, managed)
		},
	}
	steps.Run(t)
	steps.Chaos(t, 100)
}
