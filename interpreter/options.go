// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ServerOptions configures a [Server]. Only CertDir is required.
type ServerOptions struct {
	// Addr is the address to listen at, host:port. Defaults to ":9443". Port 0 selects a free port:
	// see [Server].Addr.
	Addr string

	// CertDir is the folder of the certificate and its key. Required. Both files are read again at the
	// next handshake after a change. If they do not match yet, the previous pair stays in use.
	CertDir string
	// CertName and KeyName are the names of the files. Default to "tls.crt" and "tls.key".
	CertName, KeyName string
	// ClientCAFile is a PEM file with the CAs of clients. If it is set, requests without a
	// certificate of one of them are answered with 401, except at /healthz and /readyz. The file is
	// read again as in CertDir, and applies to open connections too.
	ClientCAFile string

	// MaxBytes is the maximum size of a request body. It also sets the memory limit for the bodies
	// of all handlers together, as in [HandlerOptions]. Defaults to 8 MiB.
	MaxBytes int64
	// MaxConcurrent is the limit of concurrent requests to all handlers together. Defaults to 100.
	MaxConcurrent int
	// Timeout is as in [HandlerOptions]. Defaults to 30 s.
	Timeout time.Duration
	// ShutdownTimeout limits how long Start waits for requests in progress at its end. Defaults to
	// 10 s.
	ShutdownTimeout time.Duration

	// MetricsRegisterer registers the metrics, with the prefix spokewire_interpreter_server_. Nil
	// means no metrics.
	//
	//	requests_total{handler,operation,code}  counter    requests; the operation is "none" for
	//	                                                   invalid, rejected (429) and late (408) ones
	//	request_seconds{handler}                histogram  time that requests took
	//	requests_in_flight{handler}             gauge      requests that are being read or answered
	//	certificate_reloads_total{result}       counter    certificates read from changed files
	//	certificate_expiry_timestamp_seconds    gauge      when the certificate ends
	MetricsRegisterer prometheus.Registerer
}

func (o ServerOptions) withDefaults() ServerOptions {
	o.Addr = cmp.Or(o.Addr, ":9443")
	o.CertName, o.KeyName = cmp.Or(o.CertName, "tls.crt"), cmp.Or(o.KeyName, "tls.key")
	o.MaxBytes = cmp.Or(o.MaxBytes, MaxBytes)
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, defaultMaxConcurrent)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, 10*time.Second)
	return o
}

func (o *ServerOptions) validate() error {
	if _, _, err := net.SplitHostPort(o.Addr); o.Addr != "" && err != nil {
		return fmt.Errorf("invalid ServerOptions.Addr: %q: must be host:port: %w", o.Addr, err)
	}
	switch {
	case o.CertDir == "":
		return errors.New("invalid ServerOptions.CertDir: required: callers use TLS")
	case strings.ContainsRune(o.CertName, '/'):
		return fmt.Errorf("invalid ServerOptions.CertName: %q: must be the name of a file in CertDir", o.CertName)
	case strings.ContainsRune(o.KeyName, '/'):
		return fmt.Errorf("invalid ServerOptions.KeyName: %q: must be the name of a file in CertDir", o.KeyName)
	case o.MaxBytes < 0:
		return fmt.Errorf("invalid ServerOptions.MaxBytes: %d: must not be negative", o.MaxBytes)
	case o.MaxConcurrent < 0:
		return fmt.Errorf("invalid ServerOptions.MaxConcurrent: %d: must not be negative", o.MaxConcurrent)
	case o.Timeout < 0:
		return fmt.Errorf("invalid ServerOptions.Timeout: %v: must not be negative", o.Timeout)
	case o.ShutdownTimeout < 0:
		return fmt.Errorf("invalid ServerOptions.ShutdownTimeout: %v: must not be negative", o.ShutdownTimeout)
	}
	return nil
}
