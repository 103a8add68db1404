// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use opens a store in an etcd that does not run.
//
// Prints: unreachable: true
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/etcdstore"
)

func main() {
	var store work.SharedStore
	store, err := etcdstore.Open(context.Background(), etcdstore.Options{
		Endpoints: []string{"127.0.0.1:1"}, Timeout: time.Second,
	})
	if err == nil {
		err = store.Apply(context.Background(), []work.Change{{Key: "one", Value: []byte("1")}})
	}
	fmt.Println("unreachable:", errors.Is(err, etcdstore.ErrUnreachable))
}
