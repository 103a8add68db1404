// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

func exampleEngine() *rsync.Engine {
	engine, err := rsync.New(memstore.New(memstore.Options{}), fake.New(), rsync.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return engine
}

func exampleContext() *appcontext.AppContext {
	b := appcontext.NewBuilder("shop")
	b.App("web").Resource("edge", "cluster1", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}"))
	c, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// A server serves an engine, and a client elsewhere uses the engine as if it were local.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	engine := exampleEngine()
	server, err := rsyncgrpc.NewServer(engine, rsyncgrpc.ServerOptions{Addr: "127.0.0.1:0", Insecure: true})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- engine.Start(ctx) }()
	go func() { ended <- server.Start(ctx) }()
	<-server.Ready()

	client, err := rsyncgrpc.NewClient(server.Addr().String(), rsyncgrpc.ClientOptions{Insecure: true})
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Create(ctx, exampleContext()); err != nil {
		log.Fatal(err)
	}
	ref, err := client.Instantiate(ctx, "shop")
	if err != nil {
		log.Fatal(err)
	}
	status, err := client.Wait(ctx, ref)
	fmt.Println(status.State, err)
	_, err = client.Terminate(ctx, "other")
	fmt.Println(err, errors.Is(err, rsync.ErrNotFound))

	cancel()
	fmt.Println(client.Close(), <-ended, <-ended)
	// Output:
	// Instantiated <nil>
	// app context "other": app context or event not found true
	// <nil> <nil> <nil>
}

// A watch continues after broken connections and server restarts.
func ExampleClient_Watch() {
	ctx, cancel := context.WithCancel(context.Background())
	engine := exampleEngine()
	server, err := rsyncgrpc.NewServer(engine, rsyncgrpc.ServerOptions{Addr: "127.0.0.1:0", Insecure: true})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- engine.Start(ctx) }()
	go func() { ended <- server.Start(ctx) }()
	<-server.Ready()
	client, err := rsyncgrpc.NewClient(server.Addr().String(), rsyncgrpc.ClientOptions{Insecure: true})
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Create(ctx, exampleContext()); err != nil {
		log.Fatal(err)
	}
	if _, err := client.Instantiate(ctx, "shop"); err != nil {
		log.Fatal(err)
	}
	for change, err := range client.Watch(ctx, "shop", 0) {
		if err != nil {
			log.Fatal(err)
		}
		if c := change.Cluster; c != nil {
			fmt.Println(c.App, c.Cluster, c.Event, c.Phase)
			break
		}
	}
	cancel()
	fmt.Println(client.Close(), <-ended, <-ended)
	// Output:
	// web edge+cluster1 Instantiate Done
	// <nil> <nil> <nil>
}

// Register adds the services to an existing gRPC server.
func ExampleRegister() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	service, err := rsyncgrpc.Register(server, exampleEngine(), rsyncgrpc.Options{WithoutEMCO: true})
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()

	client, err := rsyncgrpc.NewClient(listener.Addr().String(), rsyncgrpc.ClientOptions{Insecure: true})
	if err != nil {
		log.Fatal(err)
	}
	all, err := client.List(context.Background())
	fmt.Println(len(all), err)

	service.Drain() // ends watches and waits; otherwise GracefulStop would not end
	server.GracefulStop()
	fmt.Println(client.Close(), <-served)
	// Output:
	// 0 <nil>
	// <nil> <nil>
}

// A server without TLS requires Insecure.
func ExampleNewServer() {
	_, err := rsyncgrpc.NewServer(exampleEngine(), rsyncgrpc.ServerOptions{})
	fmt.Println(errors.Is(err, rsync.ErrInvalidInput))
	server, err := rsyncgrpc.NewServer(exampleEngine(), rsyncgrpc.ServerOptions{Addr: "127.0.0.1:0", Insecure: true})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Start(ctx) }()
	<-server.Ready()
	fmt.Println(server.Addr().Network())
	cancel()
	fmt.Println(<-ended)
	// Output:
	// true
	// tcp
	// <nil>
}

// A client has the engine's methods and errors. It connects at the first call.
func ExampleNewClient() {
	client, err := rsyncgrpc.NewClient("127.0.0.1:1", rsyncgrpc.ClientOptions{Insecure: true})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = client.Status(ctx, "shop") // no server listens there
	fmt.Println(err != nil, client.Close())
	// Output: true <nil>
}
