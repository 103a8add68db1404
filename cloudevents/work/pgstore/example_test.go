// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/pgstore"
)

// Any number of replicas of a hub run this program with one database. Each serves reads. One of
// them writes; when it ends, another one can.
func Example() {
	ctx := context.Background()
	store, err := pgstore.Open(ctx, pgstore.Options{
		// The password is in the file that PGPASSFILE names.
		ConnString: "postgres://hub@db1,db2/hub?target_session_attrs=read-write&sslmode=verify-full",
		Name:       "my-controller",
	})
	if err != nil {
		log.Fatal(err) // it names the server and the cause
	}
	defer store.Close()
	transport, err := mqtt.New(mqtt.Options{BrokerURL: "mqtts://broker:8883"})
	if err != nil {
		fmt.Println(err)
		return
	}
	source, err := work.NewSource(transport, work.SourceOptions{
		SourceID: "my-controller", SharedGroup: "my-controllers", Store: store,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := source.Start(ctx); err != nil {
		fmt.Println(err)
	}
}

// Errors name the server, the database, the user and the cause, but not the password.
func ExampleOpen() {
	_, err := pgstore.Open(context.Background(), pgstore.Options{ConnString: "postgres://hub:secret@127.0.0.1:1/hub"})
	message, _, _ := strings.Cut(err.Error(), ": failed to connect")
	fmt.Println(strings.ReplaceAll(message, ": ", ":\n"))
	// Output:
	// open the store "default":
	// PostgreSQL at 127.0.0.1:1, database "hub", user "hub":
	// the server is unreachable
}

// A job of the release runs Migrate as the owner of the tables. The hub then needs no privilege to
// create tables.
func ExampleMigrate() {
	err := pgstore.Migrate(context.Background(), pgstore.Options{ConnString: os.Getenv("HUB_OWNER_DATABASE")})
	if err != nil {
		fmt.Println(err)
	}
}
