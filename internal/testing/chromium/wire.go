// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package chromium

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// params are the parameters of a command.
type params map[string]any

// message is the answer to a command, or an event of a session.
type message struct {
	ID      int             `json:"id"`
	Session string          `json:"sessionId"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error"`
}

var errClosed = errors.New("the browser has ended")

// wire is the DevTools protocol over a pair of pipes: JSON, with a zero byte after each message.
type wire struct {
	out io.WriteCloser
	in  io.ReadCloser

	done chan struct{} // closed when the browser sends no more messages

	mu      sync.Mutex
	last    int
	waiting map[int]chan message
	events  []message
}

func newWire(out io.WriteCloser, in io.ReadCloser) *wire {
	w := &wire{out: out, in: in, done: make(chan struct{}), waiting: map[int]chan message{}}
	go w.read()
	return w
}

func (w *wire) read() {
	defer close(w.done)
	for in := bufio.NewReader(w.in); ; {
		text, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		w.mu.Lock()
		if answer := w.waiting[m.ID]; answer != nil {
			delete(w.waiting, m.ID)
			answer <- m
		} else if m.Method != "" {
			w.events = append(w.events, m)
		}
		w.mu.Unlock()
	}
}

// call sends a command and waits for its answer. If result is not nil, call decodes the result of
// the answer into it.
func (w *wire) call(session, method string, p params, result any) error {
	answer := make(chan message, 1)
	w.mu.Lock()
	w.last++
	id := w.last
	w.waiting[id] = answer
	w.mu.Unlock()
	if err := w.write(id, session, method, p); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	limit := time.NewTimer(stepLimit)
	defer limit.Stop()
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-w.done:
		return fmt.Errorf("%s: %w", method, errClosed)
	case <-limit.C:
		return fmt.Errorf("%s: no answer after %v", method, stepLimit)
	}
}

// send sends a command and does not wait for its answer.
func (w *wire) send(session, method string, p params) error {
	w.mu.Lock()
	w.last++
	id := w.last
	w.mu.Unlock()
	return w.write(id, session, method, p)
}

func (w *wire) write(id int, session, method string, p params) error {
	command := map[string]any{"id": id, "method": method}
	if session != "" {
		command["sessionId"] = session
	}
	if p != nil {
		command["params"] = p
	}
	text, err := json.Marshal(command)
	if err != nil {
		return err
	}
	_, err = w.out.Write(append(text, 0))
	return err
}

// of returns the events of a session so far.
func (w *wire) of(session string) []message {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []message
	for _, m := range w.events {
		if m.Session == session {
			found = append(found, m)
		}
	}
	return found
}

func (w *wire) close() {
	_ = w.out.Close()
	_ = w.in.Close()
	<-w.done
}
