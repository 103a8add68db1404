// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use checks the size of a transaction.
//
// Prints: too large: true
package main

import (
	"errors"
	"fmt"

	"github.com/spokewire/sdk-go/rsync/store"
)

func main() {
	err := store.CheckSize(nil, []store.Op{store.Put("/key/", make([]byte, 100))}, 50, 10)
	fmt.Println("too large:", errors.Is(err, store.ErrTooLarge))
}
