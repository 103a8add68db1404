// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package hostile_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/connlimit"
	"github.com/spokewire/sdk-go/internal/testing/h2test"
)

const (
	webhookPath = "/interpret-workload"
	webhookPost = "POST " + webhookPath + " HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\n"
	webhookGood = `{"kind":"ResourceInterpreterContext","apiVersion":"config.karmada.io/v1alpha1","request":{"uid":"u","kind":{"group":"workload.example.io","version":"v1alpha1","kind":"Workload"},` +
		`"name":"w","operation":"InterpretHealth","object":{"apiVersion":"workload.example.io/v1alpha1","kind":"Workload","metadata":{"name":"w"},"spec":{"replicas":1},"status":{"readyReplicas":1}}}}`
)

// pair is one attack in two versions of HTTP.
type pair struct{ http1, http2 string }

// pairs are attacks on a webhook.
func pairs() map[string]pair {
	data := func(flags byte, text string) string {
		return h2test.Frame(h2test.Data, flags, h2test.Stream(0), text)
	}
	containers := strings.Replace(
		webhookGood,
		`"replicas":1`,
		`"template":{"spec":{"containers":[`+strings.Repeat("{},", 700_000)+`{}]}}`,
		1,
	)
	open := h2test.Preface + h2test.Calls(webhookPath, 1, 0)
	return map[string]pair{
		"slow headers": {
			webhookPost + "X: ",
			h2test.Preface + h2test.Frame(h2test.Headers, 0, h2test.Stream(0), "\x83"),
		},
		"slow bodies": {webhookPost + "Content-Length: 1000000\r\n\r\n{", open + data(0, "{")},
		"bodies without end": {
			webhookPost + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(
				"4000\r\n"+strings.Repeat(" ", 0x4000)+"\r\n",
				64,
			),
			open + strings.Repeat(data(0, strings.Repeat(" ", 0x4000)), 64),
		},
		"long headers": {
			webhookPost + "X: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
			h2test.Preface + h2test.LongCall(webhookPath, 1, strings.Repeat("x", 1<<20)),
		},
		"many headers":     {webhookPost + lines(5000), h2test.Preface + h2test.LongCall(webhookPath, 5000, "x")},
		"idle connections": {"GET /healthz HTTP/1.1\r\nHost: w\r\n\r\n", h2test.Preface},
		"noise":            {strings.Repeat("\x00\xff", 10_000), h2test.Preface + strings.Repeat("\x00\xff", 10_000)},
		"requests without a reader": {
			strings.Repeat(
				webhookPost+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(webhookGood))+webhookGood,
				1000,
			), h2test.Preface + resets(5000)},
		"many requests at once": {
			strings.Repeat(webhookPost+"Content-Length: 2\r\n\r\n{}", 1000),
			h2test.Preface + h2test.Calls(webhookPath, 100, 100),
		},
		"many small parts": {
			webhookPost + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(containers)) + containers,
			open + data(1, containers[:0x4000]),
		},
		"deep JSON": {
			webhookPost + "Content-Length: 98304\r\n\r\n" + strings.Repeat("[", 98304),
			open + strings.Repeat(data(0, strings.Repeat("[", 0x4000)), 6),
		},
	}
}

// pairAttacks sends each pair in HTTP/1.1, and in HTTP/2. The server of a webhook negotiates only
// HTTP/1.1, but clients can still send it HTTP/2 frames.
func pairAttacks() map[string]tlsAttack {
	all := map[string]tlsAttack{}
	for name, p := range pairs() {
		all["HTTP1: "+name] = func(addr string, config *tls.Config) error { return send(addr, config, p.http1) }
		all["HTTP2: "+name] = func(addr string, config *tls.Config) error { return send(addr, config, p.http2) }
	}
	return all
}

// send sends a request on many connections, and reads nothing for a while.
func send(addr string, config *tls.Config, request string) error {
	const count, during = 200, 2 * time.Second
	var clients sync.WaitGroup
	var mu sync.Mutex
	began := 0
	for range count {
		clients.Go(func() {
			conn, err := net.DialTimeout("tcp", addr, time.Second)
			if err != nil {
				return
			}
			defer conn.Close()
			encrypted := tls.Client(conn, config)
			_ = conn.SetDeadline(time.Now().Add(connlimit.HandshakeTimeout))
			if encrypted.Handshake() != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(during))
			mu.Lock()
			began++
			mu.Unlock()
			_ = write(encrypted, request)
			time.Sleep(during)
		})
	}
	clients.Wait()
	if began < count/4 {
		return fmt.Errorf("only %d connections began", began)
	}
	return nil
}

// TestInterpreter: no client of a webhook ends the webhook or blocks other clients, in HTTP/1.1, in
// HTTP/2, or before either.
func TestInterpreter(t *testing.T) {
	folder := certificates(t)
	v := start(t, "interpreter-webhook", "serve", "--certs", folder, "--addr", "127.0.0.1:0")
	addr := strings.Trim(v.after("Started webhook server\" address="), `"`)
	for offer, want := range map[string]string{"h2": "no application protocol", "h2 http/1.1": "", "http/1.1": ""} {
		config, err := clientConfig(folder, strings.Fields(offer)...)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := tls.Dial("tcp", addr, config)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Fatalf("a client that offers %s: %v", offer, err)
		case err == nil:
			if got := conn.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
				t.Errorf("a client that offers %s gets %q", offer, got)
			}
			_ = conn.Close()
		}
	}
	config, err := clientConfig(folder)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		TLSClientConfig: config, DisableKeepAlives: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn,
			error) {
			return elsewhere(ctx, addr)
		},
	}}
	var variables strings.Builder // so many that the request must wait for its turn
	for i := range 1500 {
		fmt.Fprintf(&variables, `{"name":"VARIABLE_%d","value":"a"},`, i)
	}
	honest := strings.Replace(
		webhookGood,
		`"replicas":1`,
		`"replicas":1,"template":{"spec":{"containers":[{"name":"a","env":[`+variables.String()+`{"name":"b"}]}]}}`,
		1,
	)
	v.withstand(v.flooded(addr, tlsAttacks(), handshakePlaces+200+100), func() error {
		response, err := client.Post("https://"+addr+webhookPath, "application/json", strings.NewReader(honest))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && !strings.Contains(string(body), `"healthy":true`) {
			err = fmt.Errorf("HTTP %d %s", response.StatusCode, body)
		}
		return err
	})
}
