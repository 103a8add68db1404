// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/pgstore"
)

// Open connects to a database, in which the owner of the schema has called Migrate. The password is
// in the file of PGPASSFILE.
func ExampleOpen() {
	ctx := context.Background()
	s, err := pgstore.Open(ctx, pgstore.Options{
		ConnString:    "postgres://engine@db-1.example,db-2.example/hub?sslmode=verify-full&target_session_attrs=read-write",
		Name:          "shop",
		SkipMigration: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	result, err := s.Txn(ctx, []store.Compare{store.Absent("/owner/")}, []store.Op{store.Put("/owner/", []byte("one"))})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("owner:", result.Succeeded)
}
