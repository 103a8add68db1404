// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package mosquitto runs the real Mosquitto broker next to a test.
//
//	broker := mosquitto.Start(t, mosquitto.Options{})
//	transport, err := mqtt.New(mqtt.Options{BrokerURL: broker.URL()})
//
// Each broker has its own process, port and folder, and ends with the test. Without the program,
// the test is skipped. With the environment variable CI set to "true", it fails instead, so no CI
// run skips it unnoticed.
package mosquitto

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

const (
	host       = "127.0.0.1"
	startLimit = 20 * time.Second

	// startAttempts limits how often Start looks for other ports. Another process may bind a free
	// port before the broker does.
	startAttempts = 5
)

// Broker is a Mosquitto process. Its methods may be called concurrently. Restart can fail the test,
// so it may be called only from the test's own goroutine.
type Broker struct {
	t      testing.TB
	path   string
	config string // the file
	opts   Options
	port   int
	wsPort int

	mu  sync.Mutex
	run *daemon.Daemon
	log []string // of earlier processes
}

// Start runs a broker until the end of the test, and returns when the broker accepts connections.
// If the test fails, the end of the broker's log is in the test's output.
func Start(t testing.TB, opts Options) *Broker {
	t.Helper()
	path := daemon.Require(t, "mosquitto", "mosquitto")
	b := &Broker{t: t, path: path, opts: opts, config: filepath.Join(t.TempDir(), "mosquitto.conf")}
	t.Cleanup(b.cleanup)
	for attempt := 1; ; attempt++ {
		err := b.startOnFreePorts()
		if err == nil {
			return b
		}
		if attempt == startAttempts || !strings.Contains(err.Error(), "Address already in use") {
			t.Fatalf("mosquitto: %v", err)
		}
	}
}

// URL returns the URL of the MQTT listener. Its scheme is mqtts if Options has a certificate, and
// otherwise mqtt.
func (b *Broker) URL() string {
	if b.opts.CertFile != "" {
		return "mqtts://" + b.Addr()
	}
	return "mqtt://" + b.Addr()
}

// WebSocketURL returns the URL of the WebSocket listener (ws or wss). It is empty without
// Options.WebSockets.
func (b *Broker) WebSocketURL() string {
	switch {
	case b.wsPort == 0:
		return ""
	case b.opts.CertFile != "":
		return "wss://" + address(b.wsPort)
	default:
		return "ws://" + address(b.wsPort)
	}
}

// Addr returns the address, host:port, of the MQTT listener.
func (b *Broker) Addr() string { return address(b.port) }

// PID returns the process ID of the broker process that runs, or of the last one.
func (b *Broker) PID() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.run.PID()
}

// Log returns the end of the output of the broker, for each process since Start.
func (b *Broker) Log() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(append(b.log[:len(b.log):len(b.log)], b.run.Log()), "\n")
}

// Stop ends the broker gracefully, so clients see a closed connection. It is idempotent. Restart
// starts the broker again.
func (b *Broker) Stop() { b.current().Stop() }

// Kill ends the broker like a crash. It is idempotent. Restart starts the broker again.
func (b *Broker) Kill() { b.current().Kill() }

// Restart stops the broker if it still runs, and starts it on the same ports with the same options.
// Sessions, subscriptions and retained messages are lost.
func (b *Broker) Restart() {
	b.t.Helper()
	b.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, b.run.Log())
	if err := b.launch(); err != nil {
		b.t.Fatalf("mosquitto: restart: %v", err)
	}
}

func (b *Broker) current() *daemon.Daemon {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.run
}

func (b *Broker) cleanup() {
	if b.current() == nil {
		return
	}
	b.Stop()
	if b.t.Failed() {
		b.t.Logf("log of mosquitto at %s:\n%s", b.Addr(), b.Log())
	}
}

func (b *Broker) startOnFreePorts() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.port = int(daemon.FreeAddr(b.t).Port())
	if b.opts.WebSockets {
		b.wsPort = int(daemon.FreeAddr(b.t).Port()) // if it is the same port, Start tries again
	}
	if err := writeFiles(filepath.Dir(b.config), b.config, b.opts, b.port, b.wsPort); err != nil {
		return err
	}
	return b.launch()
}

// launch starts the process and waits until it listens. The caller holds mu.
func (b *Broker) launch() error {
	run, err := daemon.Start(b.path, "-c", b.config)
	if err != nil {
		return err
	}
	b.run = run
	err = run.WaitReady(startLimit, func() error {
		// The broker logs this line after all listeners are open. Without the check, another
		// process could have bound the port and answer.
		if log := run.Log(); !strings.Contains(log, "mosquitto version") || !strings.Contains(log, " running") {
			return errors.New("the broker has not said that it runs")
		}
		conn, err := net.DialTimeout("tcp", b.Addr(), time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		run.Kill()
	}
	return err
}

// DynamicSecurity returns the path of the plugin for dynamic security, in Debian's package.
func DynamicSecurity(t testing.TB) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/*/mosquitto_dynamic_security.so")
	if err != nil || len(found) == 0 {
		t.Fatalf("mosquitto has no plugin for dynamic security in /usr/lib: install Debian's package mosquitto: %v", err)
	}
	return found[0]
}

func address(port int) string { return fmt.Sprintf("%s:%d", host, port) }
