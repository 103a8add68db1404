// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store/pgstore"
)

// Any number of processes run an engine with this store. The password is in the file of PGPASSFILE.
func Example() {
	ctx := context.Background()
	s, err := pgstore.Open(ctx, pgstore.Options{
		ConnString: "postgres://engine@db1,db2/hub?sslmode=verify-full&target_session_attrs=read-write",
	})
	if err != nil {
		log.Fatal(err) // names the server and the cause
	}
	engine, err := rsync.New(s, fake.New(), rsync.Options{})
	if err == nil {
		err = engine.Start(ctx) // until ctx ends
	}
	if err := errors.Join(err, s.Close()); err != nil {
		log.Fatal(err)
	}
}

// Errors name the server, the database, the user and the cause, but not the password.
func ExampleOpen() {
	_, err := pgstore.Open(context.Background(), pgstore.Options{ConnString: "postgres://hub:secret@127.0.0.1:1/hub"})
	message, _, _ := strings.Cut(err.Error(), ": failed to connect")
	fmt.Println(message)
	// Output:
	// open the store "default": PostgreSQL at 127.0.0.1:1, database "hub", user "hub": the server is unreachable
}

// A job of the release runs Migrate as the owner of the tables. The engines then need no privilege
// to create tables.
func ExampleMigrate() {
	err := pgstore.Migrate(context.Background(), pgstore.Options{ConnString: os.Getenv("HUB_OWNER_DATABASE")})
	if err != nil {
		log.Fatal(err)
	}
}
