// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/etcdstore"
)

// Open connects to etcd before a source is made. Here etcd does not run.
func ExampleOpen() {
	ctx := context.Background()
	store, err := etcdstore.Open(ctx, etcdstore.Options{
		Endpoints: []string{"http://127.0.0.1:1"},
		Prefix:    "/hub/works/",
		Timeout:   time.Second,
	})
	if errors.Is(err, etcdstore.ErrUnreachable) {
		fmt.Println("is etcd running at 127.0.0.1:1?")
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }() // after the source has stopped
	source, err := work.NewSource(memory.New().Transport(), work.SourceOptions{
		SourceID: "hub", SharedGroup: "hubs", Store: store, // the same in each replica
	})
	if err == nil {
		err = source.Start(ctx)
	}
	fmt.Println(err)
	// Output: is etcd running at 127.0.0.1:1?
}
