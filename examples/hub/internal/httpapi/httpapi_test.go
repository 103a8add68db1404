// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/examples/hub/internal/httpapi"
	"github.com/spokewire/sdk-go/internal/httpserve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSlowBody checks that a request times out if its body does not arrive.
func TestSlowBody(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- httpserve.Serve(ctx, listener, httpserve.Options{Handler: httpapi.New(httpapi.Options{}),
			BodyTimeout: 50 * time.Millisecond})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for _, request := range []string{"PUT /api/v1/clusters/c1", "POST /api/v1/applications/shop/rollback"} {
		t.Run(request, func(t *testing.T) {
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", request)
			reader := bufio.NewReader(conn)
			answer, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || answer.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(text), "too long") {
				t.Errorf("%s %s %v", answer.Status, text, err)
			}
			if _, err := reader.ReadByte(); err != io.EOF { // the rest must not be parsed as a request
				t.Errorf("the connection stays: %v", err)
			}
		})
	}
}
