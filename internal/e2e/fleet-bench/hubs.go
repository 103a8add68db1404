// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// hubProcess is a process that executes runHub.
type hubProcess struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	answers *json.Decoder
	errors  strings.Builder // its standard error; complete after kill
	once    sync.Once
}

// startHub starts this program as a hub process. The caller must call kill.
func (b *bench) startHub() (*hubProcess, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o := b.options
	h := &hubProcess{command: exec.Command(program, "--hub", b.fleet.id, "--store", o.store, "--broker", o.broker,
		"--ca", o.ca, "--agents", strconv.Itoa(o.agents), "--works", strconv.Itoa(o.works), "--size", strconv.Itoa(o.size),
		"--distinct="+strconv.FormatBool(o.distinct), "--duration", o.duration.String(), "--timeout", o.timeout.String())}
	h.command.Stderr = &h.errors
	if h.stdin, err = h.command.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := h.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.answers = json.NewDecoder(stdout)
	return h, h.command.Start()
}

// do makes the process execute a command, and returns its text. The process ends with ctx.
func (h *hubProcess) do(ctx context.Context, command string) (string, error) {
	defer context.AfterFunc(ctx, h.kill)()
	var reply answer
	err := json.NewEncoder(h.stdin).Encode(command)
	if err == nil {
		err = h.answers.Decode(&reply)
	}
	if err != nil {
		h.kill()
		return "", fmt.Errorf("hub: %s: the process has ended: %s", command, strings.TrimSpace(h.errors.String()))
	}
	if reply.Error != "" {
		return reply.Text, errors.New(reply.Error)
	}
	return reply.Text, nil
}

// kill ends the process like a crash.
func (h *hubProcess) kill() {
	h.once.Do(func() {
		_ = h.command.Process.Kill()
		_ = h.command.Wait()
	})
}

// hubPhases runs the phases of a hub process and the agents in this process.
func (b *bench) hubPhases(ctx context.Context) error {
	hub, err := b.startHub()
	if err != nil {
		return err
	}
	defer func() { hub.kill() }()
	for _, command := range []string{toStart, toDeclare} {
		if _, err := hub.do(ctx, command); err != nil {
			return err
		}
	}
	if strings.HasPrefix(b.options.broker, serverScheme) {
		b.broker = distantServer{hub}
	}
	if err := b.connect(ctx); err != nil {
		return err
	}
	for _, command := range []string{toCreate, toUpdate, toResync, toIdle} {
		text, err := hub.do(ctx, command)
		if _, printed := io.WriteString(b.out, text); err == nil {
			err = printed
		}
		if err != nil {
			return err
		}
	}
	err = b.phase("reconnect", "connections", func(p *phase) error {
		return b.outage(ctx, p, func() error { return nil })
	})
	if err != nil || storeKind(b.options.store) == "memory" {
		return err
	}
	err = b.successor(ctx, "restart", func() (*hubProcess, error) {
		hub.kill()
		hub, err = b.startHub()
		return hub, err
	})
	if err != nil || storeKind(b.options.store) == "file" {
		return err
	}
	standby, err := b.startHub()
	if err != nil {
		return err
	}
	defer standby.kill()
	if _, err := standby.do(ctx, toStart); err != nil {
		return err
	}
	// Before it can lead, it reads the whole content of the store.
	if err := pause(ctx, b.options.duration); err != nil {
		return err
	}
	return b.successor(ctx, "takeover", func() (*hubProcess, error) {
		hub.kill()
		return standby, nil
	})
}

// successor measures the time until another hub process accepts writes. replace kills the hub, and
// returns the other process.
func (b *bench) successor(ctx context.Context, name string, replace func() (*hubProcess, error)) error {
	return b.phase(name, "works", func(p *phase) error {
		begin := time.Now()
		hub, err := replace()
		if err != nil {
			return err
		}
		if name == "restart" {
			if _, err := hub.do(ctx, toStart); err != nil {
				return err
			}
			p.fact("the source was ready after", time.Since(begin))
		}
		if _, err := hub.do(ctx, toServe); err != nil {
			return err
		}
		p.count, p.took = b.options.works, time.Since(begin)
		if err := b.listed(ctx); err != nil {
			return err
		}
		p.fact("all agents were in sync after", b.fleet.meter.lastEvent().Sub(begin))
		text, err := hub.do(ctx, toReport)
		p.facts = append(p.facts, text)
		return err
	})
}
