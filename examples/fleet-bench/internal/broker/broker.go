// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package broker runs Mosquitto during a run.
package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const (
	startLimit = 10 * time.Second
	stopGrace  = 5 * time.Second
	// attempts limits the attempts with another port: another process may use it before the broker.
	attempts = 5
)

// config allows more messages in flight than the defaults of Mosquitto (20 and 1,000). It turns off
// Nagle's algorithm, which costs 8 ms for small packets in two directions.
const config = `listener %d 127.0.0.1
allow_anonymous true
persistence false
set_tcp_nodelay true
max_inflight_messages 1000
max_queued_messages 1000000
sys_interval 0
log_dest none
`

// withFileLimit raises the limit of open files for the broker: Go starts children with its old soft
// limit.
const withFileLimit = `ulimit -S -n "$(ulimit -H -n)" 2>/dev/null; exec "$0" "$@"`

// Broker is a Mosquitto process. Its methods are for one goroutine.
type Broker struct {
	program, folder string
	port            int
	cmd             *exec.Cmd
	ended           chan struct{}
}

// Start starts the program on a free port of the loopback interface, and waits until it accepts
// connections. The caller must call Stop.
func Start(ctx context.Context) (*Broker, error) {
	program, err := find()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "fleet-bench-")
	if err != nil {
		return nil, err
	}
	b := &Broker{program: program, folder: folder}
	for range attempts {
		if b.port, err = freePort(); err != nil {
			break
		}
		if err = b.launch(ctx); err == nil {
			return b, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	b.Stop()
	return nil, fmt.Errorf("start mosquitto: %w", err)
}

// find also searches folders that are not in the PATH of a normal user on Debian.
func find() (string, error) {
	if path, err := exec.LookPath("mosquitto"); err == nil {
		return path, nil
	}
	for _, folder := range []string{"/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin"} {
		if path, err := exec.LookPath(filepath.Join(folder, "mosquitto")); err == nil {
			return path, nil
		}
	}
	return "",
		errors.New("mosquitto is not installed: install it (on Debian: apt-get install mosquitto), or give --broker")
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// URL returns the address of the broker.
func (b *Broker) URL() string { return "mqtt://127.0.0.1:" + strconv.Itoa(b.port) }

// PID returns the process ID of the broker.
func (b *Broker) PID() int { return b.cmd.Process.Pid }

// launch starts the process and waits until it listens.
func (b *Broker) launch(ctx context.Context) error {
	lines := fmt.Sprintf(config, b.port)
	if os.Geteuid() == 0 {
		lines += "user root\n" // otherwise it runs as mosquitto, without access to the folder
	}
	file := filepath.Join(b.folder, "mosquitto.conf")
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		return err
	}
	b.cmd = exec.Command("/bin/sh", "-c", withFileLimit, b.program, "-c", file)
	apart(b.cmd)
	if err := b.cmd.Start(); err != nil {
		return err
	}
	cmd, ended := b.cmd, make(chan struct{})
	b.ended = ended
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	return b.await(ctx)
}

func (b *Broker) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		conn, err := net.DialTimeout("tcp", "127.0.0.1:"+strconv.Itoa(b.port), time.Second)
		if err == nil {
			_ = conn.Close()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("mosquitto does not listen: %w", err)
		case <-b.ended:
			return fmt.Errorf("mosquitto ended at once: %v", b.cmd.ProcessState)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Kill ends the broker like a crash.
func (b *Broker) Kill() {
	_ = b.cmd.Process.Kill()
	<-b.ended
}

// Again starts the broker again on the same port, without its earlier state.
func (b *Broker) Again(ctx context.Context) error { return b.launch(ctx) }

// Stop ends the broker and removes its files.
func (b *Broker) Stop() {
	defer func() { _ = os.RemoveAll(b.folder) }()
	if b.ended == nil {
		return
	}
	_ = b.cmd.Process.Signal(os.Interrupt)
	select {
	case <-b.ended:
	case <-time.After(stopGrace):
		b.Kill()
	}
}
