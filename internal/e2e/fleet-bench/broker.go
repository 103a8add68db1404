// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// brokerConfig allows more messages in flight than the defaults of Mosquitto (20 and 1,000). It
// turns off Nagle's algorithm, which costs 8 ms for small packets in two directions.
const brokerConfig = `listener %d 127.0.0.1
allow_anonymous true
persistence false
set_tcp_nodelay true
max_inflight_messages 1000
max_queued_messages 1000000
sys_interval 0
log_dest none
`

// broker is the server of all connections of a run.
type broker interface {
	// start starts it after kill, without its earlier state.
	start() error
	// kill ends it and its connections like a crash.
	kill()
}

// mosquittoProcess is a Mosquitto on a free port of the loopback interface.
type mosquittoProcess struct {
	program, folder, address string
	ca                       string // the file with its certificate, with TLS
	process                  *daemon.Daemon
}

// newMosquitto starts the program. The caller must call stop.
func newMosquitto(withTLS bool) (*mosquittoProcess, error) {
	program, err := daemon.Find("mosquitto")
	if err != nil {
		return nil, fmt.Errorf("%w: install it (on Debian: apt-get install mosquitto), or set --broker", err)
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "fleet-bench-")
	if err != nil {
		return nil, err
	}
	b := &mosquittoProcess{program: program, folder: folder, address: address.String()}
	lines := fmt.Sprintf(brokerConfig, address.Port)
	if os.Geteuid() == 0 {
		lines += "user root\n" // otherwise it runs as mosquitto, without access to the folder
	}
	if withTLS {
		b.ca = filepath.Join(folder, "tls.pem")
		lines += fmt.Sprintf("certfile %[1]s\nkeyfile %[1]s\n", b.ca)
		err = writeCertificate(b.ca)
	}
	if err == nil {
		err = os.WriteFile(b.config(), []byte(lines), 0o600)
	}
	if err == nil {
		err = b.start()
	}
	if err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

func (b *mosquittoProcess) url() string {
	if b.ca != "" {
		return "mqtts://" + b.address
	}
	return "mqtt://" + b.address
}

func (b *mosquittoProcess) config() string { return filepath.Join(b.folder, "mosquitto.conf") }

// start starts the process, and waits until it accepts connections. After kill, it starts the
// broker again without its earlier state.
func (b *mosquittoProcess) start() error {
	var err error
	if b.process, err = daemon.Start(b.program, "-c", b.config()); err != nil {
		return err
	}
	return b.process.WaitReady(10*time.Second, func() error {
		conn, err := net.DialTimeout("tcp", b.address, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// kill ends the broker like a crash.
func (b *mosquittoProcess) kill() { b.process.Kill() }

// stop ends the broker and removes its files.
func (b *mosquittoProcess) stop() {
	if b.process != nil {
		b.process.Stop()
	}
	_ = os.RemoveAll(b.folder)
}

// freeAddress returns an address of the loopback interface that was free a moment ago.
func freeAddress() (*net.TCPAddr, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return listener.Addr().(*net.TCPAddr), listener.Close()
}

// writeCertificate writes a self-signed certificate for the loopback interface, with its key, to a
// file.
func writeCertificate(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 0, 7),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	content := slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	return os.WriteFile(file, content, 0o600)
}
