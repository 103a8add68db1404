// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use has a transport without a broker. Its errors are permanent.
//
// Prints: permanent: true
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spokewire/sdk-go/cloudevents"
)

type transport struct{}

func (transport) Claim(string) error { return nil }

func (transport) Connect(context.Context, cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	return nil, &cloudevents.PermanentError{Err: errors.New("no broker")}
}

func main() {
	var t cloudevents.Transport = transport{}
	_, err := t.Connect(context.Background(), cloudevents.ConnectOptions{})
	var permanent *cloudevents.PermanentError
	fmt.Println("permanent:", errors.As(err, &permanent))
}
