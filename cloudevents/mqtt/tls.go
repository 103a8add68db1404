// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"crypto/tls"
	"errors"
	"io/fs"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/internal/tlsfiles"
)

// tlsConfig reads the CA file and returns the configuration for one connection to host.
func (o Options) tlsConfig(host string) (*tls.Config, error) {
	return tlsfiles.Client{Base: o.TLS, CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile}.Config(host)
}

// fileError marks an error as permanent if a file cannot be read. Invalid content is not permanent:
// the file may be in the middle of a replacement.
func fileError(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return &cloudevents.PermanentError{Err: err}
	}
	return err
}

// permanentTLS returns whether a handshake failed permanently, and advice.
func permanentTLS(err error) (string, bool) {
	advice := tlsfiles.Advice{Peer: "broker", Address: "BrokerURL", Plain: "check port and scheme in BrokerURL"}
	return advice.Permanent(err)
}
