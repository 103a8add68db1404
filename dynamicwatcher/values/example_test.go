// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package values_test

import (
	"context"
	"fmt"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/dynamicwatcher/values"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

// A template needs a password. It is rendered again when the Secret is created.
func ExampleNew() {
	api := fakeapi.New() // in place of a cluster
	defer api.Close()
	changed := make(chan string, 1)
	v, err := values.New(values.Options{
		Watcher: dynamicwatcher.Options{Config: api.Config()},
		Changed: func(_ context.Context, reader, cause string) error {
			changed <- reader + ": " + cause
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- v.Start(ctx) }()
	<-v.Started()

	render := func(r values.Reader) error {
		password, err := r.Value(values.Ref{Kind: values.KindSecret, Namespace: "shop", Name: "db", Key: "password"})
		if err == nil {
			fmt.Println("the password is", password)
		}
		return err
	}
	fmt.Println(v.Read(ctx, "shop", render))
	secret := fakeapi.Object(fakeapi.Secret, "shop", "db")
	secret.Object["data"] = map[string]any{"password": "c2VjcmV0"}
	api.Put(secret)
	fmt.Println(<-changed)
	if err := v.Read(ctx, "shop", render); err != nil {
		fmt.Println(err)
	}
	cancel()
	if err := <-ended; err != nil {
		fmt.Println(err)
	}
	// Output:
	// Secret shop/db, key password: there is no such Secret on the cluster
	// shop: Secret shop/db: Added
	// the password is secret
}

func ExampleNone() {
	v := values.None("the program has no --kubeconfig")
	fmt.Println(v.Read(context.Background(), "shop", func(r values.Reader) error {
		_, err := r.Value(values.Ref{Kind: values.KindConfigMap, Namespace: "shop", Name: "settings", Key: "color"})
		return err
	}))
	// Output: ConfigMap shop/settings, key color cannot be read: the program has no --kubeconfig
}
