// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
)

// observed is the part of a response that must be as from a server of net/http.
type observed struct {
	Code                    int
	Status, Kind, Body, Err string
	Length                  int64
}

func observe(c *http.Client, method, url string, body io.Reader) observed {
	r, err := http.NewRequest(method, url, body) //nolint:noctx // the tests of cancellation have contexts
	if err != nil {
		return observed{Err: err.Error()}
	}
	r.Header.Set("X-Sent", "1")
	response, err := c.Do(r)
	if err != nil {
		return observed{Err: "failed"}
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	out := observed{Code: response.StatusCode, Status: response.Status, Kind: response.Header.Get("X-Kind"),
		Body: string(data), Length: response.ContentLength}
	if err != nil {
		out.Err = err.Error()
	}
	return out
}

// TestTransportIsLikeServer runs handlers behind a server of net/http and behind the transport.
func TestTransportIsLikeServer(t *testing.T) {
	large := strings.Repeat("x", 5*restconfig.BufferBytes+7)
	handlers := map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"small":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a") },
		"header": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Kind", "early")
			w.WriteHeader(http.StatusTeapot)
			w.Header().Set("X-Kind", "late")
		},
		"large":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, large) },
		"no body": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"body that the code forbids": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotModified)
			if _, err := io.WriteString(w, "a"); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Errorf("Write: %v", err)
			}
		},
		"flushed": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "a")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "b")
		},
		"declared length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			_, _ = io.WriteString(w, "abc")
		},
		"request": func(w http.ResponseWriter, r *http.Request) {
			data, err := io.ReadAll(r.Body)
			_, _ = fmt.Fprint(w, r.Method, r.URL, r.RequestURI, r.ContentLength, r.Header.Get("X-Sent"), r.UserAgent(),
				len(data), err, r.URL.Host)
		},
		"unread request": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"aborted":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"aborted late": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "a")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
	}
	for name, handler := range handlers {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		door := &http.Client{Transport: restconfig.NewTransport(handler)}
		for _, method := range []string{"GET", "HEAD", "POST"} {
			t.Run(name+" "+method, func(t *testing.T) {
				url := server.URL + "/a%2fb/c?d=e&f"
				var bodies [2]io.Reader
				if method == "POST" {
					bodies = [2]io.Reader{strings.NewReader(large), strings.NewReader(large)}
				}
				want := observe(server.Client(), method, url, bodies[0])
				got := observe(door, method, url, bodies[1])
				if method != "POST" || name != "unread request" { // a server may close the connection
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("(-server +transport):\n%s", diff)
					}
				}
			})
		}
	}
}

// TestPanicIsInternalError: the client gets a Status while the header is not sent, also in place of
// a part of another response.
func TestPanicIsInternalError(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Kind", "lost")
		_, _ = io.WriteString(w, "lost")
		if r.URL.Path == "/late" {
			w.(http.Flusher).Flush()
		}
		panic("expected")
	})
	client := &http.Client{Transport: restconfig.NewTransport(handler)}
	got := observe(client, "GET", "http://host/", nil)
	var status metav1.Status
	if err := json.Unmarshal([]byte(got.Body), &status); err != nil || got.Code != http.StatusInternalServerError ||
		status.Reason != metav1.StatusReasonInternalError || got.Kind != "" || got.Length != int64(len(got.Body)) {
		t.Errorf("%v %+v", err, got)
	}
	got = observe(client, "GET", "http://host/late", nil)
	if got.Body != "lost" || got.Err != io.ErrUnexpectedEOF.Error() {
		t.Errorf("%+v", got)
	}
}

// blocked is a body without an end. Close is reported.
type blocked struct{ closed chan struct{} }

func (b *blocked) Read([]byte) (int, error) { <-b.closed; return 0, io.ErrClosedPipe }
func (b *blocked) Close() error             { close(b.closed); return nil } // it panics at the second call

// TestCancelledRequests: the end of the context ends the call, the handler, and both bodies.
func TestCancelledRequests(t *testing.T) {
	ended := make(chan struct{}, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		switch r.URL.Path {
		case "/header":
			<-r.Context().Done()
		case "/upload":
			_, _ = io.Copy(io.Discard, r.Body)
		case "/download":
			for {
				if _, err := io.WriteString(w, strings.Repeat("x", 1000)); err != nil {
					return
				}
			}
		}
	})
	client := &http.Client{Transport: restconfig.NewTransport(handler)}
	for _, path := range []string{"/header", "/upload", "/download"} {
		t.Run(path, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			upload := &blocked{make(chan struct{})}
			r, err := http.NewRequestWithContext(ctx, "POST", "http://host"+path, upload)
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(10*time.Millisecond, cancel)
			response, err := client.Do(r)
			if err == nil {
				_, err = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			<-ended
			<-upload.closed
		})
	}
	t.Run("closed early", func(t *testing.T) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://host/download", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		if _, err := response.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("read after close: %v", err)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		slow := *client
		slow.Timeout = 10 * time.Millisecond
		_, err := slow.Get("http://host/header") //nolint:bodyclose,noctx // it fails
		var timeout interface{ Timeout() bool }
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("error %v", err)
		}
		<-ended
	})
}

func TestIncompleteRequests(t *testing.T) {
	transport := restconfig.NewTransport(http.NotFoundHandler())
	for _, r := range []*http.Request{{}, {URL: httptest.NewRequest("GET", "http://host/", nil).URL}} {
		upload := &blocked{make(chan struct{})}
		r.Body = upload
		if _, err := transport.RoundTrip(r); err == nil { //nolint:bodyclose // it fails
			t.Errorf("no error for %+v", r)
		}
		<-upload.closed
	}
}

func TestTrace(t *testing.T) {
	var events []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		WroteRequest:         func(httptrace.WroteRequestInfo) { events = append(events, "wrote") },
		GotFirstResponseByte: func() { events = append(events, "got") },
	})
	r, err := http.NewRequestWithContext(ctx, "GET", "http://host/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := restconfig.NewTransport(http.NotFoundHandler()).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if diff := cmp.Diff([]string{"wrote", "got"}, events); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
