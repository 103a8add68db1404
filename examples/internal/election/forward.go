// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/spokewire/sdk-go/internal/httpserve"
	"github.com/spokewire/sdk-go/rsync/store"
)

const (
	// forwarded is set in requests that a replica has forwarded, so they are not forwarded again.
	forwarded = "Spokewire-Forwarded"
	// secretHeader has the secret of the replicas.
	secretHeader = "Spokewire-Replica"
)

// dialTimeout limits the time to reach the leader.
const dialTimeout = time.Second

// Forward returns a handler that forwards requests to the leader, with their Host. It calls refuse
// with the reason if no leader is known, or can be reached. rewrite may change requests. A forwarded
// request ends when the leadership ends.
func (e *Election) Forward(
	rewrite func(*httputil.ProxyRequest), refuse func(w http.ResponseWriter, r *http.Request, reason string),
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, l := e.state()
		switch {
		case l == nil:
			refuse(w, r, "no replica leads yet: retry in a second")
			return
		case r.Header.Get(forwarded) != "":
			refuse(w, r, fmt.Sprintf("another replica has become the leader: the one at %s", l.address))
			return
		}
		target, err := url.Parse(l.address)
		if err != nil {
			refuse(w, r, "the address of the leader is not a URL")
			return
		}
		httpserve.EndTurn(r.Context())
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(l.ctx, cancel)()
		proxy := httputil.ReverseProxy{
			Transport: e.transport, ErrorLog: log.New(io.Discard, "", 0),
			Rewrite: func(p *httputil.ProxyRequest) {
				p.SetURL(target)
				p.Out.Host = p.In.Host
				p.Out.Header.Set(forwarded, "1")
				p.Out.Header.Set(secretHeader, e.options.Secret)
				rewrite(p)
			},
			ErrorHandler: func(w http.ResponseWriter, r *http.Request, _ error) {
				refuse(w, r, fmt.Sprintf("the replica at %s leads, but does not answer: retry in a second", l.address))
			},
		}
		proxy.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Secret returns the secret that replicas share in a store, and creates it at the first start.
func Secret(ctx context.Context, data store.Data, key string) (string, error) {
	result, err := data.Txn(ctx, []store.Compare{store.Absent(key)}, []store.Op{store.Put(key, []byte(rand.Text()))})
	if err != nil {
		return "", err
	}
	if !result.Succeeded {
		return string(result.Current[0].Value), nil
	}
	kv, err := data.Get(ctx, key)
	return string(kv.Value), err
}

// FromReplica reports whether another replica has sent a request.
func (e *Election) FromReplica(r *http.Request) bool {
	given, want := r.Header.Get(secretHeader), e.options.Secret
	return want != "" && subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1
}
