// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// serveEvents sends changes to one browser until it disconnects. Each message is created when the
// browser is ready for it, so a slow browser gets fewer and larger messages, and delays no other.
func (p *Page) serveEvents(w http.ResponseWriter, r *http.Request) {
	select {
	case p.readers <- struct{}{}:
		defer func() { <-p.readers }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d browsers are connected already; reload the page manually", p.opts.MaxReaders),
			http.StatusServiceUnavailable)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // for nginx, which would buffer events

	// After a lost connection the browser sends its last version.
	version, known := p.parse(cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("since")))
	send := func(message []byte) error {
		out := http.NewResponseController(w)
		_ = out.SetWriteDeadline(time.Now().Add(p.opts.WriteTimeout)) // not supported by every writer
		if _, err := w.Write(message); err != nil {
			return err
		}
		return out.Flush()
	}
	if err := http.NewResponseController(w).Flush(); errors.Is(err, http.ErrNotSupported) {
		klog.FromContext(r.Context()).Error(err,
			"Failed to stream events to the status page: the server hides http.Flusher")
		http.Error(w, "this server cannot send events", http.StatusNotImplemented)
		return
	}
	if send([]byte("retry: 2000\n\n")) != nil {
		return
	}
	for {
		message, now, err := p.next(r.Context(), version, known)
		if err == nil {
			err = send(message)
		}
		if err != nil {
			if r.Context().Err() == nil {
				klog.FromContext(r.Context()).V(2).Info("Disconnected a browser from the status page", "reason",
					err.Error())
			}
			return
		}
		version, known = now, true
	}
}

// next waits for a version that is newer than version and returns its event, or a beat after a
// while without changes.
func (p *Page) next(ctx context.Context, version uint64, known bool) ([]byte, uint64, error) {
	quiet := time.NewTimer(beat)
	defer quiet.Stop()
	for {
		p.mu.Lock()
		changed, wait := p.refresh(ctx)
		now, name, u := p.board.version, p.version(), p.board.since(version, known)
		p.mu.Unlock()
		if !known || now != version {
			message, err := event(name, u)
			return message, now, err
		}
		var again <-chan time.Time
		if wait > 0 { // changes in quick succession are sent together
			changed, again = nil, time.After(wait)
		}
		select {
		case <-changed:
		case <-again:
		case <-quiet.C:
			return []byte("event: beat\ndata:\n\n"), version, nil
		case <-p.closing:
			return nil, version, http.ErrServerClosed
		case <-ctx.Done():
			return nil, version, ctx.Err()
		}
	}
}

// event returns an update as a server-sent event. JSON has no line breaks, which would end the
// event.
func event(version string, u update) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "id: %s\nevent: change\ndata: ", version)
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // unnecessary outside a page, and a third longer
	if err := encoder.Encode(u); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// parse parses the result of [Page.version]. An invalid version, or one of another process, is not
// known.
func (p *Page) parse(text string) (version uint64, known bool) {
	epoch, number, _ := strings.Cut(text, ".")
	version, err := strconv.ParseUint(number, 10, 64)
	return version, err == nil && epoch == p.epoch
}
