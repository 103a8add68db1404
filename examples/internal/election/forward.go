// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/spokewire/sdk-go/internal/httpserve"
)

// forwarded is set in requests that a replica has forwarded, so they are not forwarded again.
const forwarded = "Spokewire-Forwarded"

// dialTimeout limits the time to reach the leader.
const dialTimeout = time.Second

// Forward returns a handler that forwards requests to the leader, with their Host. It calls refuse
// with the reason if no leader is known, or can be reached. A forwarded request ends when the
// leadership ends.
func (e *Election) Forward(refuse func(w http.ResponseWriter, r *http.Request, reason string)) http.Handler {
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
			},
			ErrorHandler: func(w http.ResponseWriter, r *http.Request, _ error) {
				refuse(w, r, fmt.Sprintf("the replica at %s leads, but does not answer: retry in a second", l.address))
			},
		}
		proxy.ServeHTTP(w, r.WithContext(ctx))
	})
}
