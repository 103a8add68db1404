// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use opens a store on a PostgreSQL server that does not exist.
//
// Prints: open the store "shop": PostgreSQL at 127.0.0.1:1, database "db", user "u": the server is unreachable
package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spokewire/sdk-go/cloudevents/work/pgstore"
)

func main() {
	_, err := pgstore.Open(context.Background(), pgstore.Options{ConnString: "postgres://u@127.0.0.1:1/db", Name: "shop"})
	message, _, _ := strings.Cut(err.Error(), ": failed to connect")
	fmt.Println(message)
}
