// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/e2e/ocmgrpc"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// hubVariable has the [hubOptions] of this test binary as a hub.
const hubVariable = "SPOKEWIRE_OCMGRPC_HUB"

type hubOptions struct {
	Addr, Works                     string // listen here for agents, and for the works by HTTP
	Store                           string // file
	CertFile, KeyFile, ClientCAFile string
	MaxMessageSize                  int
}

// runHub runs a source with a store and a gRPC server of this SDK, until it is killed.
func runHub(options string) error {
	var o hubOptions
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return err
	}
	store, err := boltstore.Open(o.Store, boltstore.Options{})
	if err != nil {
		return err
	}
	server, err := grpc.NewServer(grpc.ServerOptions{
		CertFile: o.CertFile, KeyFile: o.KeyFile, ClientCAFile: o.ClientCAFile, Tokens: token("secret"),
		MaxMessageSize: o.MaxMessageSize,
	})
	if err != nil {
		return err
	}
	source, err := work.NewSource(server.Transport(), work.SourceOptions{
		SourceID: "hub", Profile: codec.ManifestBundle, Store: store,
	})
	if err != nil {
		return err
	}
	config, err := restconfig.FromSource(source)
	if err != nil {
		return err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return err
	}
	api := httputil.NewSingleHostReverseProxy(target)
	api.Transport = config.Transport
	api.FlushInterval = -1 // watches
	group, ctx := errgroup.WithContext(context.Background())
	group.Go(func() error { return source.Start(ctx) })
	group.Go(func() error { return http.ListenAndServe(o.Works, api) })
	group.Go(func() error {
		if err := source.InventoryComplete(ctx); err != nil {
			return err
		}
		listener, err := net.Listen("tcp", o.Addr)
		if err != nil {
			return err
		}
		return server.Serve(ctx, listener)
	})
	return group.Wait()
}

// ourHub is a source and a gRPC server of this SDK, as a process.
type ourHub struct {
	*ocmgrpc.Server
	worktyped.ManifestWorkInterface
	t  *testing.T
	ca *certtest.Authority
}

func startOurHub(t *testing.T, o hubOptions) *ourHub {
	t.Helper()
	h := &ourHub{t: t, ca: certtest.New(t)}
	folder := t.TempDir()
	o.Store = filepath.Join(folder, "works.db")
	o.ClientCAFile = h.ca.Write(t, folder, "ca")
	o.CertFile, o.KeyFile = h.ca.Issue(t, "hub", "localhost").Write(t, folder, "server")
	h.Server = ocmgrpc.StartServer(t, "the hub", 2, func(addrs []netip.AddrPort) ([]string, error) {
		o.Addr, o.Works = addrs[0].String(), addrs[1].String()
		options, err := json.Marshal(o)
		return []string{hubVariable + "=" + string(options), os.Args[0]}, err
	})
	client, err := worktyped.NewForConfig(&rest.Config{Host: "http://" + h.Links[1].Addr(), QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	h.ManifestWorkInterface = client.ManifestWorks(cluster)
	return h
}

// TestOCMAgentOnServer runs OCM's real agent on a server of this SDK, as processes that are killed.
func TestOCMAgentOnServer(t *testing.T) {
	hub, managed := startOurHub(t, hubOptions{}), ocmgrpc.StartManaged(t)
	credentials := ocmgrpc.AgentCredentials(t, hub.ca, cluster)
	steps := ocmgrpc.Steps{
		Works: hub, Managed: managed, Server: hub.Server, Slow: true,
		Start: func() *daemon.Daemon {
			return ocmgrpc.StartAgent(t, hub.Addr(), cluster, credentials, managed)
		},
	}
	steps.Run(t)
	steps.Chaos(t, 100)
}
