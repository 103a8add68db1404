// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// TestLoad uses the API with many, slow and broken clients. Then the server has as many goroutines as
// before.
func TestLoad(t *testing.T) {
	t.Parallel()
	s := unregistered(t, false, nil)
	s.kubectl("apply", "-f", s.registration())
	s.available()
	s.bindCluster("cluster-admin", "observer")
	token := s.token("default", "observer")
	if err := s.create(workclientset.NewForConfigOrDie(s.cluster.Config()), "cluster1", "w"); err != nil {
		t.Fatal(err)
	}
	before := s.goroutines(token)
	t.Run("many watches", func(t *testing.T) { s.in(t).testManyWatches() })
	t.Run("slow clients", func(t *testing.T) { s.in(t).testSlowClients() })
	t.Run("cancelled requests", func(t *testing.T) { s.in(t).testCancelledRequests() })
	t.Run("incomplete requests", func(t *testing.T) { s.in(t).testIncompleteRequests() })
	e2etest.Eventually(t, "the requests leave no goroutines", func() error {
		now := s.goroutines(token)
		if now > before+5 {
			return fmt.Errorf("the server has %d goroutines, %d before", now, before)
		}
		t.Logf("the server has %d goroutines, %d before", now, before)
		return nil
	})
}

// goroutines returns the number of the server's goroutines without those of idle connections.
func (s *scene) goroutines(token string) int {
	s.t.Helper()
	dump, err := s.direct("/debug/pprof/goroutine?debug=2", func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+token)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	count := 0
	for stack := range strings.SplitSeq(dump, "\n\n") {
		if !strings.Contains(stack, "serverConn).readFrames(") && !strings.Contains(stack, "serverConn).serve(") {
			count++
		}
	}
	return count
}

// resident returns the resident memory of the server in MiB.
func (s *scene) resident() int {
	s.t.Helper()
	return e2etest.Memory(s.t, s.server.PID(), "VmRSS") >> 20
}

// send sends a request through the API server of the cluster.
func (s *scene) send(ctx context.Context, client *http.Client, method, path, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(s.cluster.Config().Host, "/")+path,
		strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	return client.Do(request)
}

// client returns a client of the cluster with connections of its own.
func (s *scene) client(protocols ...string) *http.Client {
	s.t.Helper()
	config := s.cluster.Config()
	config.NextProtos = protocols
	own, err := rest.TLSConfigFor(config)
	if err != nil {
		s.t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: own, ForceAttemptHTTP2: len(protocols) == 0}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// setText changes the text of a work.
func (s *scene) setText(client *http.Client, name, text string) error {
	body := fmt.Sprintf(`{"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},`+
		`"data":{"text":%q}}]}}}`, name, text)
	response, err := s.send(s.t.Context(), client, http.MethodPatch, worksPath+"/"+name, body)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return err
}

// received reads a watch until an event has the text. It returns the code of an error event, or the
// error of the connection.
func received(body io.Reader, text string) error {
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		if strings.HasPrefix(line, `{"type":"ERROR"`) {
			var event struct{ Object metav1.Status }
			if err := json.Unmarshal([]byte(line), &event); err != nil {
				return err
			}
			return fmt.Errorf("%d %s", event.Object.Code, event.Object.Reason)
		}
		if strings.Contains(line, text) {
			return nil
		}
	}
}

// testManyWatches checks that all of 1,000 watches receive all of 10 changes.
func (s *scene) testManyWatches() {
	s.t.Helper()
	const watches, changes, most = 1000, 10, 256 // KiB of memory for each watch
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	client, empty := s.client(), s.resident()
	bodies := make([]io.ReadCloser, watches)
	var group errgroup.Group
	group.SetLimit(16)
	for i := range bodies {
		group.Go(func() error {
			//nolint:bodyclose // by its reader
			response, err := s.send(ctx, client, http.MethodGet, worksPath+"?watch=1", "")
			if err == nil && response.StatusCode != http.StatusOK {
				err = errors.New(response.Status)
			}
			if err == nil {
				bodies[i] = response.Body
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		s.t.Fatalf("watch: %v", err)
	}
	var readers errgroup.Group
	for _, body := range bodies {
		readers.Go(func() error {
			defer func() { _ = body.Close() }()
			lines := bufio.NewReader(body)
			for i := range changes {
				if err := received(lines, fmt.Sprintf("change %d", i)); err != nil {
					return fmt.Errorf("change %d: %w", i, err)
				}
			}
			return nil
		})
	}
	full := s.resident()
	for i := range changes {
		if err := s.setText(client, "w", fmt.Sprintf("change %d", i)); err != nil {
			s.t.Errorf("change %d: %v", i, err)
		}
	}
	timeout := time.AfterFunc(e2etest.Patience, cancel)
	defer timeout.Stop()
	if err := readers.Wait(); err != nil {
		s.t.Errorf("a watch: %v", err)
	}
	full = max(full, s.resident())
	s.t.Logf("%d watches: %d MiB resident, %d MiB before", watches, full, empty)
	if (full-empty)<<10 > watches*most {
		s.t.Errorf("%d watches need %d MiB, want at most %d KiB each", watches, full-empty, most)
	}
}

// testSlowClients checks that unread watches disturb neither writers nor other watches, and that they
// end with a clear error.
func (s *scene) testSlowClients() {
	s.t.Helper()
	const changes, size, most = 64, 256 << 10, 256 // 16 MiB of events; MiB of memory
	ctx, cancel := context.WithTimeout(s.t.Context(), 4*e2etest.Patience)
	defer cancel()
	empty := s.resident()
	watch := func() io.ReadCloser {
		s.t.Helper()
		response, err := s.send(ctx, s.client("http/1.1"), http.MethodGet, worksPath+"?watch=1", "")
		if err != nil || response.StatusCode != http.StatusOK {
			s.t.Fatalf("watch: %v, %v", response, err)
		}
		s.t.Cleanup(func() { _ = response.Body.Close() })
		return response.Body
	}
	unread, slow, fast := watch(), watch(), watch()
	go func() { // ends with the body
		for buffer := make([]byte, 1<<10); ; time.Sleep(time.Second) {
			if _, err := slow.Read(buffer); err != nil {
				return
			}
		}
	}()
	last := fmt.Sprintf("change %d ", changes-1)
	done := make(chan error, 1)
	go func() { done <- received(fast, last) }()
	client, full := s.client(), empty
	for i := range changes {
		if err := s.setText(client, "w", fmt.Sprintf("change %d %s", i, strings.Repeat("x", size))); err != nil {
			s.t.Fatalf("change %d: %v", i, err)
		}
		full = max(full, s.resident())
	}
	if err := <-done; err != nil {
		s.t.Errorf("the fast watch: %v", err)
	}
	if err := received(unread, last); err != nil && err.Error() != "410 Expired" {
		s.t.Errorf("the unread watch: %v, want all events or 410 Expired", err)
	} else {
		s.t.Logf("the unread watch: %v", err)
	}
	s.t.Logf("slow clients: %d MiB resident, %d MiB before", full, empty)
	if full-empty > most {
		s.t.Errorf("slow clients need %d MiB, want at most %d MiB", full-empty, most)
	}
}

// testCancelledRequests cancels requests of all kinds at different times.
func (s *scene) testCancelledRequests() {
	s.t.Helper()
	const requests = 500
	client, cancelled := s.client(), make(chan bool, requests)
	if err := s.setText(client, "w", "before the cancelled requests"); err != nil { // opens the connection
		s.t.Fatal(err)
	}
	var group errgroup.Group
	group.SetLimit(32)
	for i := range requests {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(s.t.Context(), time.Duration(rand.Intn(100))*time.Millisecond)
			defer cancel()
			request := [][3]string{
				{http.MethodGet, worksPath}, {http.MethodGet, worksPath + "?watch=1"}, {http.MethodGet, worksPath + "/w"},
				{http.MethodPatch, worksPath + "/w", fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, i)},
			}[i%4]
			response, err := s.send(ctx, client, request[0], request[1], request[2])
			if err == nil {
				if response.StatusCode != http.StatusOK {
					err = fmt.Errorf("%s %s: %s", request[0], request[1], response.Status)
				} else {
					_, err = io.Copy(io.Discard, response.Body)
				}
				_ = response.Body.Close()
			}
			cancelled <- err != nil
			if ctx.Err() != nil {
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		s.t.Error(err)
	}
	close(cancelled)
	count := 0
	for c := range cancelled {
		if c {
			count++
		}
	}
	s.t.Logf("%d of %d requests were cancelled", count, requests)
	if count < requests/4 {
		s.t.Errorf("%d of %d requests were cancelled, want a quarter", count, requests)
	}
	if err := s.setText(client, "w", "after the cancelled requests"); err != nil {
		s.t.Errorf("patch: %v", err)
	}
}

// testIncompleteRequests sends requests that end in the middle, to the cluster and to the server.
func (s *scene) testIncompleteRequests() {
	s.t.Helper()
	const requests = 100
	cluster, err := rest.TLSConfigFor(s.cluster.Config())
	if err != nil {
		s.t.Fatal(err)
	}
	host := strings.TrimPrefix(strings.TrimSuffix(s.cluster.Config().Host, "/"), "https://")
	server := &tls.Config{RootCAs: s.ca.Pool(), MinVersion: tls.VersionTLS12}
	for i := range requests {
		address, config := host, cluster
		if i%2 == 0 {
			address, config = s.address(), server
		}
		conn, err := tls.Dial("tcp", address, config)
		if err != nil {
			s.t.Fatal(err)
		}
		text := "POST " + worksPath + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
			"Content-Length: 1000\r\n\r\n{\"apiVersion\":"
		_, err = conn.Write([]byte(text[:len(text)-i])) // some end in the headers
		if err := errors.Join(err, conn.Close()); err != nil {
			s.t.Fatal(err)
		}
	}
	list, err := s.works("cluster1").List(s.t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		s.t.Errorf("list: %d works, %v; want 1", len(list.Items), err)
	}
}
