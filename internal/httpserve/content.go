// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// Content sends content with its ETag, compressed if the client accepts that. Browsers validate their
// copy on each use, and get no content if it has not changed.
func Content(w http.ResponseWriter, r *http.Request, contentType string, content []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Vary", "Accept-Encoding")
	etag := fmt.Sprintf(`W/"%x"`, sha256.Sum256(content))
	h.Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		// Compressed before it is sent: a compressor takes 800 KiB, and a browser may read slowly.
		var out bytes.Buffer
		z := compressors.Get().(*gzip.Writer)
		z.Reset(&out)
		_, _ = z.Write(content) // buffers have no errors
		_ = z.Close()
		compressors.Put(z)
		h.Set("Content-Encoding", "gzip")
		content = out.Bytes()
	}
	_, _ = w.Write(content)
}
