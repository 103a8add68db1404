// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"github.com/spokewire/sdk-go/cloudevents"
)

// dial opens the connection that MQTT runs on: TCP, with TLS and WebSocket where the scheme says so. step is told
// what is being waited for.
func (s *settings) dial(ctx context.Context, greeting []byte, step func(string)) (*wire, error) {
	step("the TCP connection")
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", s.endpoint.addr)
	if err != nil {
		return nil, err
	}
	conn := raw
	if s.tls != nil {
		step("the TLS handshake")
		if conn, err = s.handshake(ctx, raw); err != nil {
			_ = raw.Close()
			return nil, err
		}
	}
	if s.endpoint.webSocket() {
		step("the WebSocket handshake")
		if conn, err = s.upgrade(ctx, conn, raw); err != nil {
			_ = raw.Close()
			return nil, err
		}
	}
	return newWire(conn, raw, greeting), nil
}

func (s *settings) handshake(ctx context.Context, raw net.Conn) (net.Conn, error) {
	config, err := s.tls()
	if err != nil {
		return nil, &cloudevents.PermanentError{Err: err}
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		if advice, permanent := permanentTLS(err); permanent {
			return nil, &cloudevents.PermanentError{Err: fmt.Errorf("TLS handshake: %w: %s", err, advice)}
		}
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return conn, nil
}

// upgrade makes a WebSocket of conn. Proxies of the environment are not used.
func (s *settings) upgrade(ctx context.Context, conn, raw net.Conn) (net.Conn, error) {
	// gorilla heeds ctx's deadline only.
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	given := func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	dialer := websocket.Dialer{
		NetDialContext:    given,
		NetDialTLSContext: given, // the handshake is done
		Subprotocols:      []string{"mqtt"},
		ReadBufferSize:    1 << 10, // wire has its own
		WriteBufferSize:   4 << 10,
	}
	target := map[bool]string{false: "ws://", true: "wss://"}[s.endpoint.secure()] + s.endpoint.addr + s.endpoint.path
	ws, response, err := dialer.DialContext(ctx, target, nil)
	if response != nil {
		_ = response.Body.Close() // nothing of it is left on the connection
	}
	switch {
	case err == nil:
		return &webSocket{Conn: conn, ws: ws}, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, websocket.ErrBadHandshake) && response != nil:
		err = fmt.Errorf("WebSocket handshake: HTTP %s: check the path in BrokerURL", response.Status)
		if response.StatusCode < http.StatusInternalServerError {
			err = &cloudevents.PermanentError{Err: err}
		}
		return nil, err
	}
	return nil, fmt.Errorf("WebSocket handshake: %w", err)
}

// webSocket carries MQTT in binary messages. Their bounds mean nothing (MQTT v5, section 6).
type webSocket struct {
	net.Conn // for addresses
	ws       *websocket.Conn
	message  io.Reader // the message being read
}

// Read implements [net.Conn].
func (w *webSocket) Read(p []byte) (int, error) {
	for {
		if w.message == nil {
			kind, message, err := w.ws.NextReader()
			if err != nil {
				var closed *websocket.CloseError
				if errors.As(err, &closed) {
					return 0, io.EOF
				}
				return 0, err
			}
			if kind != websocket.BinaryMessage {
				return 0, errors.New("the broker sent a WebSocket message that is not binary")
			}
			w.message = message
		}
		n, err := w.message.Read(p)
		if errors.Is(err, io.EOF) {
			w.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Write implements [net.Conn].
func (w *webSocket) Write(p []byte) (int, error) {
	if err := w.ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close implements [net.Conn].
func (w *webSocket) Close() error {
	goodbye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = w.ws.WriteControl(websocket.CloseMessage, goodbye, time.Now().Add(drainTimeout))
	return w.ws.Close()
}
