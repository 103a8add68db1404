// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/examples/hub/internal/httpapi"
	"github.com/spokewire/sdk-go/internal/httpserve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOneBackupAtATime checks that slow clients do not make the hub keep several backups in memory.
func TestOneBackupAtATime(t *testing.T) {
	var made atomic.Int64
	server := httptest.NewServer(httpapi.New(httpapi.Options{Backup: func(context.Context) ([]byte, error) {
		made.Add(1)
		return make([]byte, 32<<20), nil
	}}))
	defer server.Close()
	ask := func() *http.Response {
		t.Helper()
		answer, err := server.Client().Post(server.URL+"/api/v1/backup", "", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	slow := ask() // has the header of the answer
	other := ask()
	text, err := io.ReadAll(other.Body)
	if err = errors.Join(err, other.Body.Close()); err != nil || other.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(string(text), "another client") || made.Load() != 1 {
		t.Errorf("while a client reads: %s %.100s %v, %d backups", other.Status, text, err, made.Load())
	}
	if n, err := io.Copy(io.Discard, slow.Body); n != 32<<20 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	_ = slow.Body.Close()
	for code := 0; code != http.StatusOK && t.Context().Err() == nil; { // the handler may still return
		again := ask()
		_, _ = io.Copy(io.Discard, again.Body)
		_ = again.Body.Close()
		code = again.StatusCode
	}
}

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
