// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// TestClearText checks that an eavesdropper reads neither the password nor anything else if the
// scheme uses TLS. Links without TLS prove that the test can read the traffic.
func TestClearText(t *testing.T) {
	ca, folder := certtest.New(t), t.TempDir()
	caFile := ca.Write(t, folder, "ca")
	certFile, keyFile := ca.Issue(t, "broker").Write(t, folder, "broker")
	users := map[string]string{"u5er": rightPassword}
	plain := mosquitto.Start(t, mosquitto.Options{WebSockets: true, Users: users})
	secure := mosquitto.Start(t, mosquitto.Options{WebSockets: true, Users: users, CertFile: certFile, KeyFile: keyFile})
	words := []string{rightPassword, "u5er", "cl1ent", "loop/", "io.spokewire.test", "t0ken"}
	for _, row := range []struct {
		url   string
		clear bool
	}{{plain.URL(), true}, {plain.WebSocketURL(), false}, {secure.URL(), false}, {secure.WebSocketURL(), false}} {
		scheme, addr, _ := strings.Cut(row.url, "://")
		t.Run(scheme, func(t *testing.T) {
			proxy := tcpproxy.Start(t, addr)
			var tapped strings.Builder // read after the link has ended
			proxy.Tap(func(data []byte) { tapped.Write(data) })
			options := mqtt.Options{BrokerURL: scheme + "://" + proxy.Addr(), ClientID: "cl1ent", Username: "u5er",
				Password: rightPassword}
			if strings.HasPrefix(scheme, "ws") {
				options.BrokerURL += "/mqtt?token=t0ken"
			}
			if strings.HasSuffix(scheme, "s") && scheme != "ws" {
				options.CAFile = caFile
			}
			t.Run("link", func(t *testing.T) { startLoop(t, &journal{}, options, clock.RealClock{}).roundTrip() })
			waitFor(t, "the link to end", func() bool { return proxy.Links() == 0 })
			for _, word := range words {
				found := strings.Contains(tapped.String(), word)
				// A WebSocket masks the data from the client. The mask is not encryption, and the
				// query is not masked.
				if row.clear && !found && word != "t0ken" || options.CAFile != "" && found || scheme == "ws" && word == "t0ken" &&
					!found {
					t.Errorf("%q was transmitted in clear text: %v", word, found)
				}
			}
		})
	}
}

// trap listens in clear text and counts connections.
func trap(t *testing.T) (addr string, visits *atomic.Int64) {
	visits = new(atomic.Int64)
	return fake(t, func(net.Conn) { visits.Add(1) }), visits
}

// TestNoRedirect checks that the client follows neither an HTTP redirect nor a Server Reference of
// a broker, in particular not to a server without TLS.
func TestNoRedirect(t *testing.T) {
	addr, visits := trap(t)
	for _, code := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "ws://"+addr+r.URL.String())
			w.WriteHeader(code)
		}))
		_, err := newTransport(t, mqtt.Options{BrokerURL: strings.Replace(server.URL, "https", "wss", 1) + "/mqtt",
			TLS:      insecure("wss"),
			Username: "user", Password: "s3cret"}).Connect(t.Context(), connectOptions(t, nil))
		wantError(t, err, "redirects are not followed")
		server.Close()
	}
	for _, code := range []byte{0x9c, 0x9d} {
		reference := append([]byte{0x1c, 0, byte(len(addr))}, addr...) // the property Server Reference
		connack := append([]byte{0x20, byte(3 + len(reference)), 0, code, byte(len(reference))}, reference...)
		broker := fake(t, func(conn net.Conn) {
			if _, _, ok := readPacket(conn); ok {
				_, _ = conn.Write(connack)
			}
		})
		_, err := newTransport(t, mqtt.Options{BrokerURL: "mqtt://" + broker, Username: "user", Password: "s3cret"}).Connect(
			t.Context(), connectOptions(t, nil))
		wantError(t, err, "server", "CONNACK 0x9")
	}
	if n := visits.Load(); n != 0 {
		t.Errorf("the client went to the other address %d times", n)
	}
}

// TestEchoedSecrets checks that errors contain no secrets, even if a peer echoes its input or a
// server repeats the request in its response.
func TestEchoedSecrets(t *testing.T) {
	echo := fake(t, func(conn net.Conn) {
		buf := make([]byte, 4<<10)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			_, _ = conn.Write(buf[:n])
		}
	})
	words := fake(t, func(conn net.Conn) {
		buf := make([]byte, 4<<10)
		n, _ := conn.Read(buf)
		request, _, _ := strings.Cut(string(buf[:n]), "\r\n")
		_, _ = conn.Write([]byte("HTTP/1.1 403 never " + request + "\r\nContent-Length: 0\r\n\r\n"))
	})
	j := &journal{}
	j.secret("s3cret", "t0ken")
	for url, want := range map[string]string{
		"mqtt://" + echo:                            "connect to mqtt://" + echo,
		"ws://" + echo + "/mqtt?token=t0ken":        "the response is not HTTP",
		"wss://" + echo + "/mqtt?token=t0ken":       "TLS",
		"ws://" + words + "/mqtt?token=t0ken":       "HTTP 403 Forbidden: a gateway before the broker refuses",
		"ws://[fe80::1%25none0]:1/mqtt?token=t0ken": "connect to ws://",
	} {
		o := mqtt.Options{BrokerURL: url, Username: "user", Password: "s3cret", ConnectTimeout: 500 * time.Millisecond}
		_, err := newTransport(t, o).Connect(t.Context(), connectOptions(t, nil))
		wantError(t, err, want)
		j.print(err)
	}
	for _, url := range []string{"wss://:1/mqtt?token=t0ken", "wss://host:99999/mqtt?token=t0ken", "host?token=t0ken",
		"wss://ho st/?token=t0ken",
		"https://host/?token=t0ken", "mqtts://host/?token=t0ken", "ws://host/#t0ken", "wss://host/?token=t0ken\x7f",
		"ws://user:s3cret@host/?token=t0ken"} {
		o := mqtt.Options{BrokerURL: url}
		_, err := mqtt.New(o)
		if err == nil {
			t.Errorf("New accepts %q", url)
		}
		j.print(err, o)
	}
	file := filepath.Join(t.TempDir(), "mqtt.yaml")
	for _, content := range []string{"password: *s3cret", "password: &s3cret", "password: !s3cret x",
		"password: !!int s3cret", "password: [s3cret]", "password: {s3cret: 1}",
		"{brokerURL: mqtt://b, password:s3cret}", "password=s3cret", "s3cret: x\npassword: x", "password: s3cret: x",
		"\"s3cret\nx", "password: 's3cret", "password: s3cret\npassword: s3cret", "brokerURL: wss://x:99999/?t=s3cret"} {
		writeFile(t, file, content)
		_, err := mqtt.LoadOptions(file)
		if err == nil {
			t.Errorf("LoadOptions accepts %q", content)
		}
		if content != "s3cret: x\npassword: x" { // here s3cret is the name of a key
			j.print(err)
		}
	}
	j.verify(t)
}

var _ cloudevents.Transport = (*attempts)(nil)
