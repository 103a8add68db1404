// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package certexpiry_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/spokewire/sdk-go/examples/internal/certexpiry"
)

// certificates returns certificates that end at times in seconds, in PEM.
func certificates(t *testing.T, ends ...int64) (out []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	for _, end := range ends {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(end, 0)}
		var der []byte
		if err == nil {
			der, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		}
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEndOfFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	chain := write("chain", certificates(t, 2000, 1000))
	authorities := write("authorities", append([]byte("a comment\n"), certificates(t, 500, 3000)...))
	damaged := write("damaged", []byte("x"))
	c := certexpiry.New([]string{chain, "", chain, damaged, filepath.Join(dir, "missing")}, []string{authorities, chain})
	want := func(chainEnds string) string {
		const name = "spokewire_certificate_expiration_timestamp_seconds"
		return fmt.Sprintf("# HELP %s When a file with certificates becomes unusable: the first end in a chain, the last "+
			"end of several CAs.\n# TYPE %[1]s gauge\n%[1]s{file=%[2]q} 3000\n%[1]s{file=%[3]q} %[4]s\n",
			name, authorities, chain, chainEnds)
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(want("1000"))); err != nil {
		t.Error(err)
	}
	write("chain", certificates(t, 9000)) // renewed
	if err := testutil.CollectAndCompare(c, strings.NewReader(want("9000"))); err != nil {
		t.Error(err)
	}
}
