// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package emco_test

import (
	"context"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
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

// Decode makes an AppContext from the keys of a context in EMCO's etcd.
func ExampleDecode() {
	keys := map[string]string{
		"/context/42/":                                                    `"42"`,
		"/context/42/app/instruction/order/":                              `"{\"apporder\":[\"web\"]}"`,
		"/context/42/app/web/":                                            `"web"`,
		"/context/42/app/web/cluster/edge+c1/":                            `"edge+c1"`,
		"/context/42/app/web/cluster/edge+c1/resource/one+Pod/":           `"apiVersion: v1\nkind: Pod\nmetadata: {name: one}\n"`,
		"/context/42/app/web/cluster/edge+c1/resource/instruction/order/": `"{\"resorder\":[\"one+Pod\"]}"`,
		"/context/42/status/":                                             `{"Status":"Instantiated"}`,
	}
	c, err := emco.Decode("42", keys)
	if err != nil {
		log.Fatal(err)
	}
	web := c.Apps[0]
	fmt.Println(c.ID, web.Name, web.Clusters[0].ClusterID, web.Clusters[0].Resources[0].Object)
	// Output: 42 web edge+c1 Pod one
}

// Encode returns the keys of an AppContext for EMCO's etcd.
func ExampleEncode() {
	b := appcontext.NewBuilder("42")
	b.App("web").Resource("edge", "c1", []byte("{apiVersion: v1, kind: Pod, metadata: {name: one}}"))
	c, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	keys, err := emco.Encode(c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(keys["/context/42/app/web/cluster/edge+c1/resource/one+Pod/"])
	// Output: "{apiVersion: v1, kind: Pod, metadata: {name: one}}"
}
