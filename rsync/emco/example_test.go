// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package emco_test

import (
	"context"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/emco"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// Import reads a context of EMCO's orchestrator. With etcd, the keys are an etcdstore without a
// prefix.
func ExampleNew() {
	ctx := context.Background()
	keys := memstore.New(memstore.Options{})
	for _, w := range orchestrator("4207052301187134513", "web@cluster1 settings=1") {
		if _, err := keys.Txn(ctx, nil, []store.Op{store.Put(w.key, []byte(w.value))}); err != nil {
			log.Fatal(err)
		}
	}
	engine, err := rsync.New(memstore.New(memstore.Options{}), fake.New(), rsync.Options{})
	if err != nil {
		log.Fatal(err)
	}
	bridge, err := emco.New(engine, keys)
	if err != nil {
		log.Fatal(err)
	}
	c, err := bridge.Import(ctx, "4207052301187134513")
	if err != nil {
		log.Fatal(err)
	}
	web := c.Apps[0].Clusters[0]
	fmt.Println(c.ID, web.ClusterID, web.Resources[0].Object)
	// Output: 4207052301187134513 edge+cluster1 ConfigMap default/settings
}
