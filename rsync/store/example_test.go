// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

func txn(s store.Store, compares []store.Compare, ops ...store.Op) store.TxnResult {
	result, err := s.Txn(context.Background(), compares, ops)
	if err != nil {
		log.Fatal(err)
	}
	return result
}

func get(s store.Store, key string) store.KeyValue {
	kv, err := s.Get(context.Background(), key)
	if err != nil {
		log.Fatal(err)
	}
	return kv
}

// Only the first owner can write the key.
func ExampleAbsent() {
	s := memstore.New(memstore.Options{})
	for _, owner := range []string{"one", "two"} {
		fmt.Println(owner, txn(s, []store.Compare{store.Absent("/owner/")}, store.Put("/owner/", []byte(owner))).Succeeded)
	}
	// Output:
	// one true
	// two false
}

// A value is replaced only if it has not changed since it was read.
func ExampleUnchanged() {
	s := memstore.New(memstore.Options{})
	txn(s, nil, store.Put("/count/", []byte("1")))
	read := get(s, "/count/")
	txn(s, nil, store.Put("/count/", []byte("2"))) // another writer
	fmt.Println(txn(s, []store.Compare{store.Unchanged(read)}, store.Put("/count/", []byte("2"))).Succeeded)
	fmt.Println(txn(s, []store.Compare{store.Unchanged(get(s, "/count/"))}, store.Put("/count/", []byte("3"))).Succeeded)
	// Output:
	// false
	// true
}

// A change of a key does not end its life; only its deletion does.
func ExampleSameLife() {
	s := memstore.New(memstore.Options{})
	txn(s, nil, store.Put("/owner/", []byte("one")))
	mine := []store.Compare{store.SameLife("/owner/", get(s, "/owner/").CreateRevision)}
	txn(s, nil, store.Put("/owner/", []byte("one, still")))
	fmt.Println(txn(s, mine, store.Put("/job/", []byte("done"))).Succeeded)
	txn(s, nil, store.Delete("/owner/"))
	fmt.Println(txn(s, mine, store.Put("/job/", []byte("done again"))).Succeeded)
	// Output:
	// true
	// false
}

func ExamplePut() {
	s := memstore.New(memstore.Options{})
	txn(s, nil, store.Put("/app/", []byte("web")), store.Put("/cluster/", []byte("c1")))
	fmt.Printf("%s %s\n", get(s, "/app/").Value, get(s, "/cluster/").Value)
	// Output: web c1
}

// The end of the lease deletes the key.
func ExamplePutLeased() {
	ctx := context.Background()
	s := memstore.New(memstore.Options{})
	lease, err := s.Grant(ctx, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	txn(s, nil, store.PutLeased("/owner/", []byte("one"), lease))
	fmt.Println(get(s, "/owner/").Exists())
	fmt.Println(s.Revoke(ctx, lease), get(s, "/owner/").Exists())
	// Output:
	// true
	// <nil> false
}

func ExampleDelete() {
	s := memstore.New(memstore.Options{})
	txn(s, nil, store.Put("/app/", nil))
	txn(s, nil, store.Delete("/app/"))
	fmt.Println(get(s, "/app/").Exists())
	// Output: false
}

func ExampleDeletePrefix() {
	s := memstore.New(memstore.Options{})
	txn(s, nil, store.Put("/app/web/", nil), store.Put("/app/db/", nil), store.Put("/cluster/", nil))
	txn(s, nil, store.DeletePrefix("/app/"))
	left, err := s.Range(context.Background(), "/")
	fmt.Println(len(left.KVs), err)
	// Output: 1 <nil>
}
