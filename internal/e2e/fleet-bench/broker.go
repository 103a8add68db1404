// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
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

// broker is a Mosquitto process on a free port of the loopback interface.
type broker struct {
	program, folder, address string
	process                  *daemon.Daemon
}

// newBroker starts the program. The caller must call stop.
func newBroker() (*broker, error) {
	program, err := daemon.Find("mosquitto")
	if err != nil {
		return nil, fmt.Errorf("%w: install it (on Debian: apt-get install mosquitto), or set --broker", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().(*net.TCPAddr)
	_ = listener.Close() // the port was free a moment ago
	folder, err := os.MkdirTemp("", "fleet-bench-")
	if err != nil {
		return nil, err
	}
	b := &broker{program: program, folder: folder, address: address.String()}
	lines := fmt.Sprintf(brokerConfig, address.Port)
	if os.Geteuid() == 0 {
		lines += "user root\n" // otherwise it runs as mosquitto, without access to the folder
	}
	if err = os.WriteFile(b.config(), []byte(lines), 0o600); err == nil {
		err = b.start()
	}
	if err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

func (b *broker) url() string    { return "mqtt://" + b.address }
func (b *broker) config() string { return filepath.Join(b.folder, "mosquitto.conf") }

// start starts the process, and waits until it accepts connections. After kill, it starts the
// broker again without its earlier state.
func (b *broker) start() error {
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
func (b *broker) kill() { b.process.Kill() }

// stop ends the broker and removes its files.
func (b *broker) stop() {
	if b.process != nil {
		b.process.Stop()
	}
	_ = os.RemoveAll(b.folder)
}
