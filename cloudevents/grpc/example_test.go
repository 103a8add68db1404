// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
)

// Sources and agents connect with the transports. This program publishes and receives messages
// directly.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server, err := grpc.NewServer(grpc.ServerOptions{
		Insecure: true, // an example needs no certificates
		Authorizer: grpc.AuthorizerFunc(func(_ context.Context, a grpc.Access) error {
			fmt.Println("an", a.Role, "subscribes to the works of", a.Cluster)
			return nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan error)
	go func() { served <- server.Serve(ctx, listener) }()

	transport, err := grpc.New(grpc.Options{Address: listener.Addr().String(), Insecure: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	received := make(chan cloudevents.Message)
	agent, err := transport.Connect(ctx, cloudevents.ConnectOptions{
		Filters: []string{"/sources/+/clusters/cluster1/manifests"},
		Receive: func(m cloudevents.Message) { received <- m },
		Refuse:  func(topic string, err error) { fmt.Println("refused:", topic, err) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	source, err := server.Transport().Connect(ctx, cloudevents.ConnectOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}

	e := ce.New()
	e.SetID("1")
	e.SetType("io.open-cluster-management.v1.manifestwork.spec.created")
	e.SetSource("hub")
	message := cloudevents.Message{Topic: "/sources/hub/clusters/cluster1/manifests", Event: &e}
	if err := source.Publish(ctx, message, func(err error) { fmt.Println("acknowledged:", err == nil) }); err != nil {
		fmt.Println(err)
		return
	}
	m := <-received
	fmt.Println(m.Event.Type(), "on", m.Topic)

	_ = agent.Close()
	_ = source.Close()
	cancel()
	fmt.Println("served:", <-served)
	// Output:
	// an agent subscribes to the works of cluster1
	// acknowledged: true
	// io.open-cluster-management.v1.manifestwork.spec.created on /sources/hub/clusters/cluster1/manifests
	// served: <nil>
}

// The options are checked without the network.
func ExampleNew() {
	transport, err := grpc.New(grpc.Options{
		Address: "hub.example.com:8443", CAFile: "/etc/agent/ca.crt", TokenFile: "/etc/agent/token",
	})
	fmt.Println(transport, err)
	_, err = grpc.New(grpc.Options{Address: "https://hub.example.com"})
	fmt.Println(err)
	// Output:
	// gRPC transport to hub.example.com:8443 <nil>
	// gRPC options: invalid Address: "https://hub.example.com": write host:port
}

// A server without Serve has only in-process transports.
func ExampleNewServer() {
	server, err := grpc.NewServer(grpc.ServerOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	conn, err := server.Transport().Connect(context.Background(), cloudevents.ConnectOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("largest message:", conn.MaxPacketSize())
	_ = conn.Close()
	_, err = grpc.NewServer(grpc.ServerOptions{CertFile: "/etc/hub/tls.crt"})
	fmt.Println(err)
	// Output:
	// largest message: 16777216
	// gRPC server options: only one of CertFile and KeyFile is set: set both or neither
}

// This rule allows agents only. The user is the name of a cluster.
func ExampleAuthorizer() {
	authorizer := grpc.AuthorizerFunc(func(_ context.Context, a grpc.Access) error {
		switch {
		case a.Role != grpc.RoleAgent:
			return errors.New("only agents connect over the network")
		case a.Broadcast: // requests of sources to all agents, without manifests
			return nil
		case a.Cluster == "" || a.Cluster != a.Identity.User: // "" is a wildcard
			return errors.New("it is not the cluster of the user")
		}
		return nil
	})
	user := grpc.Identity{User: "cluster1"}
	for _, a := range []grpc.Access{
		{Identity: user, Role: grpc.RoleAgent, Cluster: "cluster1", Topic: "/sources/+/clusters/cluster1/manifests"},
		{Identity: user, Role: grpc.RoleAgent, Broadcast: true, Topic: "/sources/+/resync/clusters/manifestsstatus"},
		{Identity: user, Role: grpc.RoleAgent, Topic: "/sources/+/clusters/+/manifests"},
		{Identity: user, Role: grpc.RoleSource, Write: true, Source: "hub", Cluster: "cluster1",
			Topic: "/sources/hub/clusters/cluster1/manifests"},
		{Identity: user, Topic: "#"},
	} {
		fmt.Println(a.Topic, authorizer.Authorize(context.Background(), a))
	}
	// Output:
	// /sources/+/clusters/cluster1/manifests <nil>
	// /sources/+/resync/clusters/manifestsstatus <nil>
	// /sources/+/clusters/+/manifests it is not the cluster of the user
	// /sources/hub/clusters/cluster1/manifests only agents connect over the network
	// # only agents connect over the network
}

// A second source connects over the network. The user is the common name of its certificate.
func ExampleAuthorizeNames() {
	authorizer := grpc.AuthorizeNames("hub2")
	for _, a := range []grpc.Access{
		{Identity: grpc.Identity{User: "hub2"}, Role: grpc.RoleSource, Source: "hub2", Cluster: "cluster1", Write: true},
		{Identity: grpc.Identity{User: "hub2"}, Role: grpc.RoleSource, Source: "hub", Cluster: "cluster1", Write: true},
		{Identity: grpc.Identity{User: "cluster1"}, Role: grpc.RoleAgent, Cluster: "cluster1"},
		{Identity: grpc.Identity{User: "cluster1"}, Role: grpc.RoleAgent, Cluster: "cluster2"},
	} {
		err := authorizer.Authorize(context.Background(), a)
		fmt.Printf("%s as %s: %v\n", a.Identity.User, a.Role, err == nil)
	}
	// Output:
	// hub2 as source: true
	// hub2 as source: false
	// cluster1 as agent: true
	// cluster1 as agent: false
}
