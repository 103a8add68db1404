// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpserve_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/httpserve"
)

// TestRequestAtTheEnd checks that a request with a body that arrives while the server ends is not
// answered with the status 200 if its handler was not called.
func TestRequestAtTheEnd(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- httpserve.Serve(ctx, listener, httpserve.Options{MaxBody: 100, Handler: http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "accepted") })})
	}()
	conn := dial(t, listener.Addr().String(), "127.0.0.1")
	reader := bufio.NewReader(conn)
	fmt.Fprint(conn, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatal(line, err) // otherwise the server reads the body now
	}
	if _, err := reader.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	cancel()
	fmt.Fprint(conn, "body")
	answer, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	refused := answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") != ""
	if !refused && string(body) != "accepted" { // the handler may still be called
		t.Errorf("%s %v: %q", answer.Status, answer.Header, body)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
