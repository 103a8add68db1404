// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpserve_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/httpserve"
)

// TestContent checks that a client gets content compressed if it accepts that, and only if it has
// changed.
func TestContent(t *testing.T) {
	text := strings.Repeat("text ", 1000)
	get := func(headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		httpserve.Content(w, r, "text/plain", []byte(text))
		return w
	}
	plain := get()
	if got := plain.Header().Get("Cache-Control"); got != "private, no-cache" {
		t.Errorf("other users get the content of a shared cache: %q", got)
	}
	if plain.Body.String() != text || plain.Header().Get("Content-Type") != "text/plain" {
		t.Errorf("%v %s", plain.Header(), plain.Body)
	}
	packed := get("Accept-Encoding", "br, gzip")
	reader, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(reader); err != nil || string(got) != text ||
		packed.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("%v, %d bytes, %v", packed.Header(), len(got), err)
	}
	if again := get("If-None-Match", plain.Header().Get("ETag")); again.Code != http.StatusNotModified ||
		again.Body.Len() > 0 {
		t.Errorf("content that has not changed: %d", again.Code)
	}
	before := plain.Header().Get("ETag")
	if text += "more"; get("If-None-Match", before).Code != http.StatusOK {
		t.Error("content that has changed is not sent")
	}
}
