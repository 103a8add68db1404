// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use makes an API server for the works of a source.
//
// Prints: ok
package main

import (
	"fmt"
	"log"
	"net"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/apiserver"
)

func main() {
	options := apiserver.NewOptions()
	r := options.Recommended
	r.CoreAPI, r.Authentication, r.Authorization, r.Admission, r.Features = nil, nil, nil, nil, nil
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	r.SecureServing.Listener = listener
	source, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := apiserver.New(source, options); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ok")
}
