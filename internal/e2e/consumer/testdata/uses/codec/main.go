// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use encodes and decodes a resync.
//
// Prints: /sources/resync/cluster1/manifests has 1 entry
package main

import (
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/codec"
)

func main() {
	topic, event, err := codec.ManifestWork.Encode(&codec.SpecResync{
		Header:  codec.Header{ID: "1", Agent: "agent", Cluster: "cluster1"},
		Entries: []codec.SpecEntry{{ResourceID: "one", Version: 3}},
	})
	if err != nil {
		log.Fatal(err)
	}
	message, err := codec.ManifestWork.Decode(topic, event)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(topic, "has", len(message.(*codec.SpecResync).Entries), "entry")
}
