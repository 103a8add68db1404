// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

func ExampleBuilder() {
	b := appcontext.NewBuilder("shop-1")
	b.App("db").Resource("edge", "cluster1", manifest("Database", "orders"))
	b.App("web").DependsOn("db", appcontext.OpStatusReady, 10*time.Second).Resource("edge", "cluster1",
		manifest("Server", "front"))
	shop, err := b.Build()
	fmt.Println(len(shop.Apps), shop.App("web").DependsOn[0].App, err)

	b.App("db").DependsOn("web", appcontext.OpStatusReady, 0)
	_, err = b.Build()
	fmt.Println(err)
	// Output:
	// 2 db <nil>
	// app context "shop-1" is invalid: app "db": dependencies form a cycle: db → web → db
}

func ExampleDiff() {
	before, after := appcontext.NewBuilder("1"), appcontext.NewBuilder("2")
	before.App("web").Resource("edge", "c", manifest("Server", "front")).Resource("edge", "c", manifest("Cache", "old"))
	after.App("shop").Resource("edge", "c", manifest("Server", "front")).Resource("edge", "c", manifest("Cache", "new"))
	one, _ := before.Build()
	two, _ := after.Build()
	d := appcontext.Diff(one, two, nil)
	for id, change := range d.Updated {
		if change == appcontext.ChangeAdded {
			fmt.Println("apply", id)
		}
	}
	for id := range d.Gone {
		fmt.Println("delete", id)
	}
	for id, from := range d.Moved {
		fmt.Println("moved from", from.App, id)
	}
	// Output:
	// apply edge+c: Cache new
	// delete edge+c: Cache old
	// moved from web edge+c: Server front
}

// Build reports all problems.
func ExampleNewBuilder() {
	b := appcontext.NewBuilder("shop")
	b.App("web").Resource("edge", "cluster1", []byte("kind: ConfigMap"))
	_, err := b.Build()
	fmt.Println(errors.Is(err, appcontext.ErrInvalid), appcontext.Has(err, appcontext.FaultBadManifest))
	// Output: true true
}

func ExampleHooks() {
	fmt.Println(appcontext.Hooks())
	// Output: [crd-install pre-install post-install pre-delete post-delete]
}

func ExampleResources() {
	b := appcontext.NewBuilder("shop")
	manifest := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}")
	b.App("web").Add("edge", "c1", appcontext.Resource{Manifest: manifest})
	b.App("web").Add("edge", "c2", appcontext.Resource{Manifest: manifest, Hook: appcontext.HookPreDelete})
	shop, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	for id, r := range appcontext.Resources(shop.Apps) {
		fmt.Println(id, r.Installed())
	}
	// Output:
	// edge+c1: ConfigMap shop/settings true
	// edge+c2: ConfigMap shop/settings false
}

func ExampleParseObject() {
	object, err := appcontext.ParseObject(
		[]byte("{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}"))
	fmt.Println(object, err)
	_, err = appcontext.ParseObject([]byte("kind: Deployment"))
	fmt.Println(err)
	// Output:
	// apps/Deployment shop/web <nil>
	// the manifest has no apiVersion
}
