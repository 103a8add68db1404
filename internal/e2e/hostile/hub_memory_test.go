// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package hostile_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// crowd opens connections from a number of addresses, and sends a request on each while the server
// reads. It does not read, and closes the connections after a while.
func crowd(address, request string, addresses, count int, during time.Duration) {
	var clients sync.WaitGroup
	begin := time.Now()
	for i := range count {
		clients.Go(func() {
			dialer := net.Dialer{Timeout: time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%addresses))}}
			conn, err := dialer.Dial("tcp", address)
			if err != nil {
				return
			}
			defer conn.Close()
			_ = conn.(*net.TCPConn).SetReadBuffer(4096)
			_ = conn.SetDeadline(begin.Add(during))
			_, _ = io.WriteString(conn, request)
			time.Sleep(time.Until(begin.Add(during)))
		})
	}
	clients.Wait()
}

// crowds returns attacks of many clients that each use few resources.
func crowds(api caller) (attacks []attack) {
	address := strings.TrimPrefix(api.url, "http://")
	put := func(body string, length int) string {
		return fmt.Sprintf("PUT /api/v1/applications/evil HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
			length, body)
	}
	get := func(path, header string) string {
		return strings.Repeat("GET "+path+" HTTP/1.1\r\nHost: localhost\r\n"+header+"\r\n", 500)
	}
	objects := documentHeader + "kind: Application\nspec: [" + strings.Repeat("{a},", 15_000) + "]\n"
	for name, a := range map[string]struct {
		request   string
		addresses int
	}{
		"bodies of many clients that do not end": {put(strings.Repeat(" ", 1<<20-1), 1<<20), 200},
		"small documents of many clients":        {put(objects, len(objects)), 1},
		"pages that nobody reads":                {get("/", "Accept-Encoding: gzip\r\n"), 1},
		"metrics that nobody reads":              {get("/metrics", "Accept-Encoding: gzip\r\n"), 1},
		"statuses that nobody reads":             {get("/api/v1/status", ""), 1},
	} {
		attacks = append(attacks,
			attack{name, func(*testing.T) { crowd(address, a.request, a.addresses, 600, 5*time.Second) }})
	}
	attacks = append(attacks, attack{"large documents that change", func(t *testing.T) { churn(t, api) }})
	large := application("large", "# "+strings.Repeat("x", 1<<20-2000))
	return append(attacks, attack{"lists that nobody reads", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for i := range 10 {
			name := fmt.Sprint("large", i)
			document := strings.Replace(large, "{name: large}", "{name: "+name+"}", 1)
			if code, err := api.call(ctx, "PUT", "/api/v1/applications/"+name, document); code >= 300 || err != nil {
				t.Errorf("document %d: %d %v", i, code, err)
			}
		}
		crowd(address, get("/api/v1/applications", ""), 1, 100, 5*time.Second)
		for i := range 10 {
			_, _ = api.call(ctx, "DELETE", fmt.Sprint("/api/v1/applications/large", i), "")
		}
	}})
}

// churn places 20 applications of nearly 1 MiB on all clusters. It changes all of them at the same
// time for a while, and then deletes them.
func churn(t *testing.T, api caller) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("churn", i))
	}
	call := func(method, path, body string) {
		if code, err := api.call(ctx, method, path, body); err != nil || code >= 300 &&
			code != http.StatusServiceUnavailable && code != http.StatusUnprocessableEntity {
			t.Errorf("%s %s: %d %v", method, path, code, err)
		}
	}
	for _, name := range names {
		call("PUT", "/api/v1/applications/"+name, application(name, "# nothing yet"))
	}
	call("PUT", "/api/v1/placements/churn", documentHeader+
		"kind: Placement\nmetadata: {name: churn}\nspec: {applications: ["+strings.Join(names, ", ")+
		"], clusters: {selector: {}}}\n")
	begin := time.Now()
	var authors sync.WaitGroup
	for _, name := range names {
		authors.Go(func() {
			for version := 0; version == 0 || time.Since(begin) < 5*time.Second; version++ {
				var objects strings.Builder
				for i := range 8000 {
					fmt.Fprintf(&objects,
						"---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: %s-%d, namespace: x}, data: {v: \"%d\"}}\n", name, i,
						version)
				}
				call("PUT", "/api/v1/applications/"+name, application(name, objects.String()))
			}
		})
	}
	authors.Wait()
	call("DELETE", "/api/v1/placements/churn", "")
	for _, name := range names {
		call("DELETE", "/api/v1/applications/"+name, "")
	}
}
