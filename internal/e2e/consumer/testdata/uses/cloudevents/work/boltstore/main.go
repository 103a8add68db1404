// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use keeps a record in a file.
//
// Prints: one is 1
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
)

func main() {
	dir, err := os.MkdirTemp("", "use")
	if err != nil {
		log.Fatal(err)
	}
	store, err := boltstore.Open(filepath.Join(dir, "works.db"), boltstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Apply(context.Background(), []work.Change{{Key: "one", Value: []byte("1")}}); err != nil {
		log.Fatal(err)
	}
	if err := store.Load(context.Background(), func(key string, value []byte) error {
		fmt.Println(key, "is", string(value))
		return nil
	}); err != nil {
		log.Fatal(err)
	}
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		log.Fatal(err)
	}
}
