// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package mqtt_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"

	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

// TestCertificateAndKeyReplacedTogether replaces the folder of certificate and key between the two
// reads, as Kubernetes replaces a mounted secret. The first key is a named pipe, which shows the
// test when it is read.
func TestCertificateAndKeyReplacedTogether(t *testing.T) {
	folder, ca := t.TempDir(), certtest.New(t)
	old, next, current := filepath.Join(folder, "old"), filepath.Join(folder, "next"), filepath.Join(folder, "current")
	if err := errors.Join(os.Mkdir(old, 0o700), os.Mkdir(next, 0o700), os.Symlink("old", current)); err != nil {
		t.Fatal(err)
	}
	id := ca.Issue(t, "next")
	id.Write(t, next, "tls")
	writeFile(t, filepath.Join(old, "tls.crt"), ca.Issue(t, "old").CertPEM)
	pipe := filepath.Join(old, "tls.key")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	replaced := make(chan error)
	go func() {
		key, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the reader opens the key
		if err != nil {
			replaced <- err
			return
		}
		err = errors.Join(os.Symlink("next", current+".new"), os.Rename(current+".new", current))
		_, werr := key.WriteString(id.KeyPEM)
		replaced <- errors.Join(err, werr, key.Close())
	}()
	options := mqtt.Options{CertFile: filepath.Join(current, "tls.crt"), KeyFile: filepath.Join(current, "tls.key")}
	if err := options.LoadCertificate(); err != nil {
		t.Error(err)
	}
	if err := <-replaced; err != nil {
		t.Error(err)
	}
}
