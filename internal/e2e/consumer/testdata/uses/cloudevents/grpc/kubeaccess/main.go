// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use makes a server with the RBAC of an API server that is away.
//
// Prints: undecided: true
package main

import (
	"context"
	"fmt"
	"log"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/grpc/kubeaccess"
)

func main() {
	reviews, err := kubeaccess.New(&rest.Config{Host: "http://127.0.0.1:1"}, kubeaccess.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := grpc.NewServer(grpc.ServerOptions{Tokens: reviews, Authorizer: reviews}); err != nil {
		log.Fatal(err)
	}
	err = reviews.Authorize(context.Background(), grpc.Access{
		Identity: grpc.Identity{User: "agent"}, Role: grpc.RoleAgent, Cluster: "cluster1",
		Topic: "/sources/+/clusters/cluster1/manifests",
	})
	fmt.Println("undecided:", status.Code(err) == codes.Unavailable)
}
