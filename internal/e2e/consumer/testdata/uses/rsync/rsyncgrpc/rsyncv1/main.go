// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use makes a client of the service, for code in other words than ours.
//
// Prints: /rsync.v1.Engine/Create, client: true
package main

import (
	"fmt"
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

func main() {
	conn, err := grpc.NewClient("127.0.0.1:1", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rsyncv1.Engine_Create_FullMethodName+", client:", rsyncv1.NewEngineClient(conn) != nil)
	if err := conn.Close(); err != nil {
		log.Fatal(err)
	}
}
