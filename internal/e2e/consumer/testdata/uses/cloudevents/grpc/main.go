// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use connects to a server in its process and to one that is away.
//
// Prints: in process: true, no server: true
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
)

func main() {
	server, err := grpc.NewServer(grpc.ServerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	remote, err := grpc.New(grpc.Options{Address: "127.0.0.1:1", Insecure: true, ConnectTimeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	options := cloudevents.ConnectOptions{Receive: func(cloudevents.Message) {}, Refuse: func(string, error) {}}
	_, localErr := server.Transport().Connect(context.Background(), options)
	_, remoteErr := remote.Connect(context.Background(), options)
	fmt.Printf("in process: %v, no server: %v\n", localErr == nil, remoteErr != nil)
}
