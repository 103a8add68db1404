// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use looks for an app context that EMCO does not have.
//
// Prints: true
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/emco"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

func main() {
	engine, err := rsync.New(memstore.New(memstore.Options{}), fake.New(), rsync.Options{})
	if err != nil {
		log.Fatal(err)
	}
	bridge, err := emco.New(engine, memstore.New(memstore.Options{}))
	if err != nil {
		log.Fatal(err)
	}
	_, err = bridge.Import(context.Background(), "4207052301187134513")
	fmt.Println(errors.Is(err, rsync.ErrNotFound))
}
