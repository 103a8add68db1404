// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use makes a CA and reads a token.
//
// Prints: CA: true, token: abcdefghij.***
package main

import (
	"fmt"
	"log"
	"strings"

	"github.com/spokewire/sdk-go/cloudevents/join"
)

func main() {
	ca, err := join.CreateAuthority("hub")
	if err != nil {
		log.Fatal(err)
	}
	cert, _, err := ca.Server("hub.example.com")
	if err != nil {
		log.Fatal(err)
	}
	token, err := join.ParseToken("abcdefghij." + strings.Repeat("s", 26) + "." + strings.Repeat("0", 64))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("CA: %v, token: %v\n", len(cert) > 0, token)
}
