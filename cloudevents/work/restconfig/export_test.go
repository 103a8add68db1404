// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig

import "net/http"

// NewTransport returns the transport of a configuration for any handler.
func NewTransport(h http.Handler) http.RoundTripper { return transport{h} }

// BufferBytes is the size of the buffer of a response.
const BufferBytes = bufferBytes
