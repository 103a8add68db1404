// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpretertest

import (
	"testing"

	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

// Certificate returns a folder for [interpreter.ServerOptions].CertDir and the CA bundle for the
// clientConfig of a webhook configuration. The certificate is valid for 127.0.0.1, localhost and
// the given hosts for one hour.
func Certificate(t testing.TB, hosts ...string) (certDir string, caBundle []byte) {
	t.Helper()
	certDir = t.TempDir()
	ca := certtest.New(t)
	ca.Issue(t, "webhook", append(hosts, "localhost")...).Write(t, certDir, "tls")
	return certDir, []byte(ca.PEM)
}
