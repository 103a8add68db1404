// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use classifies an error.
//
// Prints: unreachable: true
package main

import (
	"errors"
	"fmt"

	"github.com/spokewire/sdk-go/rsync/connector"
)

func main() {
	err := fmt.Errorf("dial: %w", connector.ErrUnreachable)
	fmt.Println("unreachable:", errors.Is(connector.ClassOf(err), connector.ErrUnreachable))
}
