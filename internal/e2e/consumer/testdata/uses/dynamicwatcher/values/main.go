// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use reads a value of a Secret without a cluster.
//
// Prints: Secret shop/db, key password cannot be read: no cluster
package main

import (
	"context"
	"fmt"
	"log"

	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/dynamicwatcher/values"
)

func main() {
	if _, err := values.New(values.Options{
		Watcher: dynamicwatcher.Options{Config: &rest.Config{Host: "https://192.0.2.1"}},
		Changed: func(context.Context, string, string) error { return nil },
	}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(values.None("no cluster").Read(context.Background(), "shop", func(r values.Reader) error {
		_, err := r.Value(values.Ref{Kind: values.KindSecret, Namespace: "shop", Name: "db", Key: "password"})
		return err
	}))
}
