// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/dynamicwatcher"
)

// pipes is a listener of in-memory connections. Its server can be unreachable.
type pipes struct {
	away        atomic.Bool
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if p.away.Load() {
		return nil, errors.New("connection refused")
	}
	client, server := net.Pipe()
	select {
	case p.connections <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.connections:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestUnreachableCluster checks a cluster that is unreachable from the start. Each read times out, and the
// readers are notified when the cluster is reachable.
func TestUnreachableCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{connections: make(chan net.Conn), closed: make(chan struct{})}
		p.away.Store(true)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v1/namespaces/ns/secrets" || r.FormValue("watch") != "true" {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"ns","name":"s","uid":"1","resourceVersion":"1"},"data":{"k":"dmFsdWU="}}}`,
				`{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"Secret","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})}
		var group sync.WaitGroup
		group.Go(func() { _ = server.Serve(p) })
		notified := make(chan string, 1)
		o, err := New(Options{
			Watcher: dynamicwatcher.Options{Config: &rest.Config{Host: "http://cluster", Dial: p.dial}},
			Changed: func(_ context.Context, application, _ string) error {
				notified <- application
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		group.Go(func() {
			if err := o.Start(ctx); err != nil {
				t.Error(err)
			}
		})
		<-o.Started()
		read := func() (value string, err error) {
			err = o.Read(ctx, "shop", func(objects Reader) error {
				value, err = objects.Value(Ref{Kind: "Secret", Namespace: "ns", Name: "s", Key: "k"})
				return err
			})
			return value, err
		}
		began := time.Now()
		if _, err := read(); !errors.As(err, new(*MissingError)) || time.Since(began) > 10*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		time.Sleep(time.Hour)
		p.away.Store(false)
		select {
		case application := <-notified:
			if value, err := read(); application != "shop" || value != "value" || err != nil {
				t.Errorf("%s: %q, %v", application, value, err)
			}
		case <-time.After(10 * time.Minute):
			t.Error("the reader was not notified that the cluster is reachable")
		}
		cancel()
		_ = server.Close()
		group.Wait()
	})
}
