// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// silences returns peers that accept a connection and stop answering, at each stage of Connect.
func silences(t *testing.T) []struct{ name, url, stage string } {
	ca := certtest.New(t)
	server := ca.Issue(t, "127.0.0.1")
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{server.Certificate}})
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, listener, func(conn net.Conn) { _ = conn.(*tls.Conn).Handshake() })
	return []struct{ name, url, stage string }{
		{"TLS", "mqtts://" + fake(t, silent), "the TLS handshake"},
		{"WebSocket", "ws://" + fake(t, silent), "the WebSocket handshake"},
		{"WebSocketOverTLS", "wss://" + listener.Addr().String(), "the WebSocket handshake"},
		{"CONNACK", "mqtt://" + fake(t, silent), "CONNACK"},
		{"CONNACKOverTLS", "mqtts://" + listener.Addr().String(), "CONNACK"},
		{"SUBACK", "mqtt://" + fake(t, silentAfterConnect), "SUBACK"},
	}
}

func insecure(url string) *tls.Config {
	if strings.HasPrefix(url, "mqtts") || strings.HasPrefix(url, "wss") {
		return &tls.Config{InsecureSkipVerify: true}
	}
	return nil
}

// TestConnectTimesOut checks that Connect returns when ConnectTimeout or its context ends, if the
// peer is silent.
func TestConnectTimesOut(t *testing.T) {
	const patient = 1500 * time.Millisecond // on a busy machine the steps before the silence are slow
	for _, row := range silences(t) {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			attempt := func(ctx context.Context, timeout time.Duration) error {
				t.Helper()
				transport := newTransport(t, mqtt.Options{BrokerURL: row.url, TLS: insecure(row.url), ConnectTimeout: timeout})
				start := time.Now()
				_, err := transport.Connect(ctx, connectOptions(t, nil, "topic"))
				if took := time.Since(start); took > 10*time.Second {
					t.Errorf("Connect took %v", took)
				}
				wantError(t, err, "connect to "+row.url, row.stage)
				var permanent *cloudevents.PermanentError
				if errors.As(err, &permanent) {
					t.Errorf("%v is a PermanentError, but the broker may come back", err)
				}
				return err
			}
			if err := attempt(t.Context(), patient); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after ConnectTimeout: %v, want context.DeadlineExceeded", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer time.AfterFunc(patient, cancel).Stop()
			if err := attempt(ctx, time.Hour); !errors.Is(err, context.Canceled) {
				t.Errorf("after cancel: %v, want context.Canceled", err)
			}
		})
	}
}

// TestConnectErrors checks that errors contain the cause, the address and a solution, and whether a
// failure is permanent.
func TestConnectErrors(t *testing.T) {
	hangUp := fake(t, func(conn net.Conn) { _ = conn.Close() })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	httpServer := httptest.NewServer(http.NotFoundHandler())
	defer httpServer.Close()
	httpAddr := strings.TrimPrefix(httpServer.URL, "http://")
	overloaded := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer overloaded.Close()
	answer := func(packet ...byte) string {
		return "mqtt://" + fake(t, func(conn net.Conn) {
			if _, _, ok := readPacket(conn); ok {
				_, _ = conn.Write(packet)
			}
		})
	}
	missing := filepath.Join(t.TempDir(), "missing")
	table := []struct {
		name      string
		options   mqtt.Options
		want      []string
		permanent bool
	}{
		{"no listener", mqtt.Options{BrokerURL: "mqtt://" + gone.Addr().String()}, []string{"connection refused"}, false},
		{"hangs up", mqtt.Options{BrokerURL: "mqtt://" + hangUp}, []string{"is it an MQTT v5 broker?"}, false},
		{"HTTP server", mqtt.Options{BrokerURL: "mqtt://" + httpAddr, ConnectTimeout: 200 * time.Millisecond},
			[]string{"connect to mqtt://"}, false},
		{"no TLS there", mqtt.Options{BrokerURL: "mqtts://" + httpAddr}, []string{"does not speak TLS on this port"}, true},
		{"no WebSocket there", mqtt.Options{BrokerURL: "ws://" + httpAddr + "/mqtt"}, []string{"HTTP 404", "check the path"},
			true},
		{"gateway without broker", mqtt.Options{BrokerURL: "ws://" + strings.TrimPrefix(overloaded.URL, "http://")},
			[]string{"HTTP 502"}, false},
		{"bad client ID", mqtt.Options{BrokerURL: answer(0x20, 3, 0, 0x85, 0)},
			[]string{"client identifier not valid (CONNACK 0x85)", "check ClientID"}, true},
		{"old broker", mqtt.Options{BrokerURL: answer(0x20, 3, 0, 0x84, 0)}, []string{"must speak MQTT v5"}, true},
		{"busy", mqtt.Options{BrokerURL: answer(0x20, 3, 0, 0x89, 0)}, []string{"server busy"}, false},
		{"in its own words", mqtt.Options{BrokerURL: answer(0x20, 8, 0, 0x97, 5, 0x1f, 0, 2, 'n', 'o')},
			[]string{`quota exceeded (CONNACK 0x97), in the broker's words: "no"`}, false},
		{"QoS 0 only", mqtt.Options{BrokerURL: answer(0x20, 5, 0, 0, 2, 0x24, 0)}, []string{"needs QoS 1"}, true},
		{"window of nothing", mqtt.Options{BrokerURL: answer(0x20, 6, 0, 0, 3, 0x21, 0, 0)}, []string{"Receive Maximum of 0"},
			false},
		{"no shared subscriptions", mqtt.Options{BrokerURL: answer(0x20, 5, 0, 0, 2, 0x2a, 0)},
			[]string{"does not support shared subscriptions"}, true},
		{"password file missing", mqtt.Options{BrokerURL: "mqtt://" + hangUp, PasswordFile: missing},
			[]string{"PasswordFile: open " + missing}, true},
		{"CA file missing", mqtt.Options{BrokerURL: "mqtts://" + hangUp, CAFile: missing},
			[]string{"CAFile: open " + missing}, true},
		{"certificate missing", mqtt.Options{BrokerURL: "mqtts://" + hangUp, CertFile: missing, KeyFile: missing},
			[]string{"CertFile " + missing}, true},
	}
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			_, err := newTransport(t, row.options).Connect(t.Context(), connectOptions(t, nil, "$share/g/topic"))
			wantError(t, err, append(row.want, "connect to ")...)
			var permanent *cloudevents.PermanentError
			if errors.As(err, &permanent) != row.permanent {
				t.Errorf("%v: a PermanentError is %v, want %v", err, !row.permanent, row.permanent)
			}
		})
	}
}

// TestSubscriptionRefused checks that the error names the filter.
func TestSubscriptionRefused(t *testing.T) {
	broker := startEmbedded(t, embeddedOptions{denied: map[string]bool{"secret/#": true}})
	_, err := newTransport(t, mqtt.Options{BrokerURL: broker.url()}).Connect(t.Context(),
		connectOptions(t, nil, "open", "secret/#", "other"))
	wantError(t, err, `topic filter "secret/#": not authorized (SUBACK 0x87)`, "access rules")
	var permanent *cloudevents.PermanentError
	var reason *mqtt.ReasonError
	if !errors.As(err, &permanent) || !errors.As(err, &reason) || reason.Code != 0x87 {
		t.Errorf("%v: want a PermanentError with a ReasonError", err)
	}
	qos0 := fake(t, func(conn net.Conn) {
		silentAfterConnect(conn)
		if _, rest, ok := readPacket(conn); ok {
			_, _ = conn.Write([]byte{0x90, 4, rest[0], rest[1], 0, 0})
		}
	})
	_, err = newTransport(t, mqtt.Options{BrokerURL: "mqtt://" + qos0}).Connect(t.Context(),
		connectOptions(t, nil, "topic"))
	wantError(t, err, `topic filter "topic": granted only QoS 0`)
}

// TestOptionalSubscriptionRefused checks that the connection opens without the optional
// subscription, and that Denied receives the reason.
func TestOptionalSubscriptionRefused(t *testing.T) {
	broker := startEmbedded(t, embeddedOptions{denied: map[string]bool{"secret/#": true}})
	o := connectOptions(t, nil, "open")
	denied := map[string]error{}
	o.Optional, o.Denied = []string{"secret/#", "other"}, func(filter string, err error) { denied[filter] = err }
	conn, err := newTransport(t, mqtt.Options{BrokerURL: broker.url()}).Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if len(denied) != 1 {
		t.Errorf("denied: %v", denied)
	}
	wantError(t, denied["secret/#"], `topic filter "secret/#": not authorized (SUBACK 0x87)`)
}

// TestCredentials checks that the error names a wrong password, and that the password file is read
// for each connection.
func TestCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	brokers := map[string]string{
		"Embedded":  startEmbedded(t, embeddedOptions{users: map[string]string{"user": "s3cret"}}).url(),
		"Mosquitto": mosquitto.Start(t, mosquitto.Options{Users: map[string]string{"user": "s3cret"}}).URL(),
	}
	for name, url := range brokers {
		t.Run(name, func(t *testing.T) {
			writeFile(t, file, "s3cret but wrong")
			transport := newTransport(t, mqtt.Options{BrokerURL: url, Username: "user", PasswordFile: file})
			_, err := transport.Connect(t.Context(), connectOptions(t, nil))
			wantError(t, err, "CONNACK", "check Username")
			var permanent *cloudevents.PermanentError
			if !errors.As(err, &permanent) {
				t.Errorf("%v is not a PermanentError", err)
			}
			writeFile(t, file, "s3cret\n")
			conn, err := transport.Connect(t.Context(), connectOptions(t, nil))
			if err != nil {
				t.Fatalf("Connect after the file was put right: %v", err)
			}
			_ = conn.Close()
			connect(t, mqtt.Options{BrokerURL: url, Username: "user", Password: "s3cret"})
		})
	}
}

// TestClientID checks that a generated client ID begins with the claimed name and is stable, and
// that a given client ID is used unchanged.
func TestClientID(t *testing.T) {
	broker := startEmbedded(t, embeddedOptions{})
	names := func() (list []string) {
		for id := range broker.server.Clients.GetAll() {
			if id != "inline" {
				list = append(list, id)
			}
		}
		return list
	}
	transport := newTransport(t, mqtt.Options{BrokerURL: broker.url()})
	if err := transport.Claim("cluster1-agent"); err != nil {
		t.Fatal(err)
	}
	var seen string
	for range 2 {
		conn, err := transport.Connect(t.Context(), connectOptions(t, nil))
		if err != nil {
			t.Fatal(err)
		}
		got := names()
		if len(got) != 1 || !strings.HasPrefix(got[0], "cluster1-agent-") || seen != "" && seen != got[0] {
			t.Errorf("client IDs %q, want one that begins with cluster1-agent- and stays the same", got)
		}
		seen = got[0]
		_ = conn.Close()
		waitFor(t, "the broker to see the end", func() bool { return len(names()) == 0 })
	}
	connect(t, mqtt.Options{BrokerURL: broker.url(), ClientID: "verbatim"})
	if got := names(); len(got) != 1 || got[0] != "verbatim" {
		t.Errorf("client IDs %q, want verbatim", got)
	}
}
