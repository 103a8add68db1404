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

// dial opens the connection for MQTT: TCP, with TLS and WebSocket if the scheme requires them. It
// calls step with the name of each stage before it waits.
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
		return nil, fileError(err)
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, adviseTLS(fileError(fmt.Errorf("TLS handshake: %w", err)))
	}
	return conn, nil
}

func adviseTLS(err error) error {
	advice, permanent := permanentTLS(err)
	if advice != "" {
		err = fmt.Errorf("%w: %s", err, advice)
	}
	if permanent {
		return &cloudevents.PermanentError{Err: err}
	}
	return err
}

// upgrade makes a WebSocket of conn, without proxies and redirects: the password is sent only to
// the address in the options.
func (s *settings) upgrade(ctx context.Context, conn, raw net.Conn) (net.Conn, error) {
	// gorilla observes only the deadline of ctx.
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	asking := &asker{Conn: conn}
	given := func(context.Context, string, string) (net.Conn, error) { return asking, nil }
	dialer := websocket.Dialer{
		NetDialContext:    given,
		NetDialTLSContext: given, // the handshake is done
		Subprotocols:      []string{"mqtt"},
		ReadBufferSize:    1 << 10, // wire has its own buffer
		WriteBufferSize:   4 << 10,
	}
	ws, response, err := dialer.DialContext(ctx, s.endpoint.target(), nil)
	if response != nil {
		_ = response.Body.Close() // no bytes of it remain on the connection
	}
	switch {
	case err == nil:
		asking.done = true
		return &webSocket{Conn: conn, ws: ws}, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, websocket.ErrBadHandshake) && response != nil:
		return nil, statusError(response.StatusCode)
	}
	return nil, adviseTLS(fmt.Errorf("WebSocket handshake: %w", plainError(err)))
}

// asker is a connection for writing a request. If a write fails, it reads the reason: with TLS 1.3
// a broker that requires another certificate sends an alert and closes before it has read anything.
// wire.writeFailedLocked handles later writes.
type asker struct {
	net.Conn
	done bool
}

// Write implements [net.Conn].
func (a *asker) Write(p []byte) (int, error) {
	n, err := a.Conn.Write(p)
	if err == nil || a.done {
		return n, err
	}
	_ = a.SetReadDeadline(time.Now().Add(drainTimeout))
	if _, readErr := a.Read(make([]byte, 1)); readErr != nil {
		if _, permanent := permanentTLS(readErr); permanent {
			err = readErr
		}
	}
	return n, err
}

// statusError returns the error for an HTTP response that is no WebSocket, without the text of the
// server, which may repeat the query of the request.
func statusError(code int) error {
	status := fmt.Sprintf("HTTP %d %s", code, http.StatusText(code))
	temporary := code >= http.StatusInternalServerError ||
		code == http.StatusTooManyRequests || code == http.StatusRequestTimeout
	advice := "check the path in BrokerURL"
	switch {
	case temporary:
		advice = "is the broker behind it up? If so, check the path in BrokerURL"
	case code == http.StatusSwitchingProtocols:
		advice = "the response is not one to a WebSocket handshake"
	case code >= http.StatusMultipleChoices && code < http.StatusBadRequest:
		advice = "redirects are not followed, write the address that it leads to into BrokerURL"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		advice = "a gateway before the broker refuses the request, check path and query in BrokerURL"
	}
	err := fmt.Errorf("WebSocket handshake: %s: %s", status, advice)
	if temporary {
		return err
	}
	return &cloudevents.PermanentError{Err: err}
}

// plainError returns errors of the connection unchanged. Others concern received bytes, and would
// quote them.
func plainError(err error) error {
	var network *net.OpError
	switch {
	case errors.As(err, &network):
		return network
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the broker closed the connection")
	}
	return errors.New("the response is not HTTP: check port and scheme in BrokerURL")
}

// webSocket carries MQTT in binary messages. Their boundaries have no meaning (MQTT v5, section 6).
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
				return 0, closeError(err)
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

// closeError returns [io.EOF] for an orderly close. For any other close it returns an error with
// the code (RFC 6455, section 7.4.1) and without the text that may follow.
func closeError(err error) error {
	var closed *websocket.CloseError
	switch {
	case !errors.As(err, &closed):
		return err
	case websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway,
		websocket.CloseNoStatusReceived, websocket.CloseAbnormalClosure):
		return io.EOF
	case closed.Code == websocket.ClosePolicyViolation:
		return errors.New("the broker closed the WebSocket (1008): a policy violation")
	case closed.Code == websocket.CloseMessageTooBig:
		return errors.New("the broker closed the WebSocket (1009): a message was too big for it")
	}
	return fmt.Errorf("the broker closed the WebSocket (%d)", closed.Code)
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
