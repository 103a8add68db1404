// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi_test

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/internal/testing/background"
)

const patience = 2 * time.Minute

// shutdown is the signal of a server.
type shutdown chan struct{}

// ShuttingDown implements [apirequest.ServerShutdownSignal].
func (s shutdown) ShuttingDown() <-chan struct{} { return s }

// dial opens a websocket, and ends it with the test.
func dial(t *testing.T, url string) *websocket.Conn {
	t.Helper()
	conn, response, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(url, "http"),
		http.Header{"Origin": {"http://localhost"}}) // required
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// next returns the next event of a watch: its type, and the name of its work.
func next(t *testing.T, conn *websocket.Conn) string {
	t.Helper()
	kind, data, err := conn.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	var event metav1.WatchEvent
	var w workv1.ManifestWork
	if err := json.Unmarshal(data, &event); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(event.Object.Raw, &w); err != nil || kind != websocket.TextMessage {
		t.Fatalf("message of type %d: %s: %v", kind, data, err)
	}
	return event.Type + " " + w.Name
}

// TestWatchOverWebSocket checks the events of a watch, and its end by a server that shuts down, and
// by the end of the source.
func TestWatchOverWebSocket(t *testing.T) {
	source := sourceOn(t, memory.New())
	stop := background.Run(t, source.Start)
	handler, signal := handlerOf(t, source.Clientset()), make(shutdown)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(apirequest.WithServerShutdownSignal(r.Context(), signal)))
	}))
	defer server.Close()
	send(t, handler, "POST", works, body, "Content-Type", "application/json")
	conn := dial(t, server.URL+works+"?watch=true")
	if got := next(t, conn); got != "ADDED a" {
		t.Errorf("the first event is %s, want ADDED a", got)
	}
	send(t, handler, "POST", works, strings.Replace(body, `"a"`, `"b"`, 1), "Content-Type", "application/json")
	if got := next(t, conn); got != "ADDED b" {
		t.Errorf("the second event is %s, want ADDED b", got)
	}
	close(signal)
	wantEnd(t, conn)
	without := httptest.NewServer(handler)
	defer without.Close()
	conn = dial(t, without.URL+works+"?watch=true&fieldSelector=metadata.name=b")
	if got := next(t, conn); got != "ADDED b" {
		t.Errorf("the first event is %s, want ADDED b", got)
	}
	stop()
	wantEnd(t, conn)
}

// wantEnd fails unless the server has closed the connection.
func wantEnd(t *testing.T, conn *websocket.Conn) {
	t.Helper()
	_, data, err := conn.ReadMessage()
	if timeout := net.Error(nil); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("received %q, %v; want an end", data, err)
	}
}

// TestWebSocketNeedsConnection: a handler in the process has no connection. Other requests with the
// headers of a websocket are served.
func TestWebSocketNeedsConnection(t *testing.T) {
	handler := handlerOf(t, sourceOn(t, memory.New()).Clientset())
	w := send(t, handler, "GET", works+"?watch=true", "", "Connection", "Upgrade", "Upgrade", "websocket")
	wantStatus(t, w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
	if w := send(t, handler, "GET", works, "", "Connection", "Upgrade", "Upgrade", "websocket"); w.Code != http.StatusOK {
		t.Errorf("a list answers %d %s, want OK", w.Code, w.Body)
	}
}
