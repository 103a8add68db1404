// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type stream struct {
	server  *Server
	request Request
	filter  filter
	fault   Fault
	w       http.ResponseWriter
	left    <-chan struct{} // closed when the client has disconnected
	sent    int
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, q Request, f Fault) {
	wanted, err := q.filter()
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, nil)
		return
	}
	version, _ := strconv.ParseInt(q.Version, 10, 64)
	s.mu.Lock()
	now, compacted := s.version, s.compacted
	s.mu.Unlock()
	switch {
	case q.Initial && s.Plain:
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: metav1.CauseTypeForbidden, Field: "sendInitialEvents"}},
		})
		return
	case version > now:
		refuse(w, http.StatusGatewayTimeout, metav1.StatusReasonTimeout, &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}, RetryAfterSeconds: 1,
		})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush(w)
	t := &stream{server: s, request: q, filter: wanted, fault: f, w: w, left: r.Context().Done()}
	if !q.Initial && version < compacted {
		t.expire()
		return
	}
	s.count(1)
	defer s.count(-1)
	t.run(r, version)
}

func (s *Server) count(streams int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Streams += streams
}

func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

func (t *stream) run(r *http.Request, version int64) {
	s := t.server
	s.mu.Lock()
	bookmarks, cuts := s.bookmarks, s.cuts
	if t.request.Initial {
		version = s.version
		existing := s.list(t.request.Kind, t.filter)
		s.mu.Unlock()
		for _, o := range existing {
			if !t.send("ADDED", o) {
				return
			}
		}
		if !t.bookmark(version, true) {
			return
		}
	} else {
		s.mu.Unlock()
	}
	for t.goesOn() {
		s.mu.Lock()
		var news []change
		for _, c := range s.history {
			if c.version > version && c.gvk == t.request.Kind {
				news = append(news, c)
			}
		}
		version = max(version, s.version)
		changed, cut, marked := s.changed, s.cuts != cuts, s.bookmarks != bookmarks
		bookmarks = s.bookmarks
		s.mu.Unlock()
		if cut {
			panic(http.ErrAbortHandler)
		}
		for _, c := range news {
			if c.ends || !t.sendChange(c) {
				return
			}
		}
		if marked && !t.bookmark(version, false) {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
		if !sleep(r, t.fault.Lag) {
			return
		}
	}
}

// goesOn reports whether the stream continues. After the events of its fault, it ends the stream.
func (t *stream) goesOn() bool {
	if t.fault.Ending == None || t.sent < t.fault.After {
		return true
	}
	switch t.fault.Ending {
	case Cut:
		panic(http.ErrAbortHandler)
	case Expired:
		t.expire()
	case Silence:
		<-t.left
	}
	return false
}

func (t *stream) sendChange(c change) bool {
	was, is := t.filter.matches(c.old), t.filter.matches(c.now)
	switch {
	case !was && is:
		return t.send("ADDED", c.now)
	case was && is:
		return t.send("MODIFIED", c.now)
	case was:
		last := c.old.DeepCopy()
		last.SetResourceVersion(strconv.FormatInt(c.version, 10))
		return t.send("DELETED", last)
	}
	return true
}

func (t *stream) bookmark(version int64, initial bool) bool {
	mark := &unstructured.Unstructured{Object: map[string]any{}}
	mark.SetGroupVersionKind(t.request.Kind)
	mark.SetResourceVersion(strconv.FormatInt(version, 10))
	if initial {
		mark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return t.send("BOOKMARK", mark)
}

func (t *stream) send(kind string, o *unstructured.Unstructured) bool {
	if !t.goesOn() {
		return false
	}
	t.sent++
	times := 1
	if t.fault.Duplicate {
		times = 2
	}
	return t.write(kind, t.request.shape(o).Object, times)
}

func (t *stream) write(kind string, object any, times int) bool {
	event, err := json.Marshal(map[string]any{"type": kind, "object": object})
	if err != nil {
		panic(err)
	}
	if _, err := t.w.Write(bytes.Repeat(append(event, '\n'), times)); err != nil {
		return false
	}
	flush(t.w)
	return true
}

func (t *stream) expire() {
	t.write("ERROR", status(http.StatusGone, metav1.StatusReasonExpired, nil), 1)
}
