// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/spokewire/sdk-go/internal/bodies"
	"github.com/spokewire/sdk-go/internal/connlimit"
	"github.com/spokewire/sdk-go/internal/turns"
)

const (
	maxHandled   = 16       // requests from the end of the body to the start of the answer
	largeBody    = 64 << 10 // the size above which bodies take turns, so that they do not delay small ones
	bodiesMemory = 32 << 20 // for the bodies of all requests
)

type turnKey struct{}

// withTurns reads the body of a request, and then waits for the turn of the request, which ends
// with the first byte of the answer. Errors of the body are returned by its Read: an
// [*http.MaxBytesError], [bodies.ErrNoMemory], or that of the connection.
func withTurns(next http.Handler, maxBody int64) http.Handler {
	if maxBody == 0 {
		return next
	}
	// A client gets up to three quarters of the turns. With four turns, only one request can have
	// three.
	all, handled, large := bodies.New(maxBody, bodiesMemory), turns.New(maxHandled), turns.New(4)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			buffer := all.Borrow(r.RemoteAddr)
			defer buffer.Release()
			err := buffer.Fill(http.MaxBytesReader(w, r.Body, maxBody), r.ContentLength)
			if err == nil {
				err = io.EOF
			}
			r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(buffer.Data), failing{err}))
			if len(buffer.Data) > largeBody {
				end, err := large.Take(r.Context(), connlimit.Address(r.RemoteAddr), 3)
				if err != nil {
					ends(w)
					return
				}
				defer end()
			}
		}
		end, err := handled.Take(r.Context(), connlimit.Address(r.RemoteAddr), 1)
		if err != nil {
			ends(w)
			return
		}
		defer end()
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.answers(end)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), turnKey{}, end)))
	})
}

// ends answers a request with a context that has ended: the client has disconnected, or the server
// ends. Without an answer the status would be 200, and a client would take a change for accepted.
func ends(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "the server ends: retry in a second", http.StatusServiceUnavailable)
}

type failing struct{ err error }

// Read implements [io.Reader].
func (f failing) Read([]byte) (int, error) { return 0, f.err }

// EndTurn ends the turn of a request, so that other requests are handled while its handler waits.
// The context is that of the request.
func EndTurn(ctx context.Context) {
	if end, ok := ctx.Value(turnKey{}).(func()); ok {
		end()
	}
}

// Buffered returns a handler that sends an answer of h after it is complete. A slow client needs no
// more memory than the size of the answer.
func Buffered(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := &buffered{ResponseWriter: w, code: http.StatusOK}
		h.ServeHTTP(b, r)
		w.WriteHeader(b.code)
		_, _ = b.body.WriteTo(w) // the client may have disconnected
	})
}

type buffered struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

// WriteHeader implements [http.ResponseWriter].
func (b *buffered) WriteHeader(code int) { b.code = code }

// Write implements [http.ResponseWriter].
func (b *buffered) Write(p []byte) (int, error) { return b.body.Write(p) }
