// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// stream is a session over the input and output of a program, on this machine or on a server over
// SSH. go-git's own sessions do not end with their contexts while they connect.
type stream struct {
	in        io.WriteCloser
	out       io.Reader
	complaint *head        // the standard error of the program
	wait      func() error // until the program has ended and its complaint is complete
	kill      func()

	fetching, pushing bool // a request was sent
	once              sync.Once
}

func (s *stream) refs(ctx context.Context) (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	err := refs.Decode(s.out)
	var line *pktline.ErrorLine
	switch {
	case err == nil, errors.Is(err, packp.ErrEmptyAdvRefs):
		transport.FilterUnsupportedCapabilities(refs.Capabilities)
		return refs, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &line):
		return nil, &complaintError{line.Text}
	case errors.Is(err, packp.ErrEmptyInput):
		s.close()
		return nil, &complaintError{s.complaint.first()}
	}
	return nil, err
}

func (s *stream) fetch(_ context.Context, request *packp.UploadPackRequest) (io.ReadCloser, error) {
	s.fetching = true
	err := request.UploadRequest.Encode(s.in)
	if err == nil {
		err = request.UploadHaves.Encode(s.in, true)
	}
	if err == nil {
		err = pktline.NewEncoder(s.in).Encodef("done\n")
	}
	if err != nil {
		return nil, err
	}
	response := packp.NewUploadPackResponse(request)
	err = response.Decode(io.NopCloser(s.out))
	return response, err
}

func (s *stream) push(_ context.Context, request *packp.ReferenceUpdateRequest) (*packp.ReportStatus, error) {
	s.pushing = true
	if err := errors.Join(request.Encode(s.in), s.in.Close()); err != nil {
		return nil, err
	}
	report := packp.NewReportStatus()
	err := report.Decode(demux(request.Capabilities, s.out))
	return report, err
}

// close ends the session. Without a request the program expects a flush packet.
func (s *stream) close() {
	s.once.Do(func() {
		if !s.fetching && !s.pushing {
			_, _ = s.in.Write(pktline.FlushPkt)
		}
		_ = s.in.Close()
		if s.fetching {
			s.kill() // the remaining output is not needed
		} else {
			_, _ = io.Copy(io.Discard, s.out) // hooks run after a push, and write here
		}
		_ = s.wait()
	})
}

// demux returns the first band of an answer. It omits the server's messages for people, which may
// contain anything.
func demux(capabilities *capability.List, r io.Reader) io.Reader {
	switch {
	case capabilities.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, r)
	case capabilities.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, r)
	}
	return r
}

// complaintError is the error of a program that ended without an answer.
type complaintError struct{ text string }

func (e *complaintError) Error() string {
	if e.text == "" {
		return "the server ended the conversation without an answer"
	}
	return "the server said: " + e.text
}

// head keeps the beginning of the text that is written to it.
type head struct {
	mu   sync.Mutex
	text []byte
}

func (t *head) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := refusalLimit - len(t.text); n > 0 {
		t.text = append(t.text, p[:min(n, len(p))]...)
	}
	return len(p), nil
}

// first returns the first line with content.
func (t *head) first() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range strings.Lines(string(t.text)) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "remote:"))
		if strings.Trim(line, "= ") != "" {
			return line
		}
	}
	return ""
}

// openLocal runs git's own program for a repository on this machine.
func (r *remote) openLocal(ctx context.Context, s service) (session, error) {
	path := filepath.FromSlash(r.endpoint.Path)
	_, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, transport.ErrRepositoryNotFound
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, "git", strings.TrimPrefix(string(s), "git-"), path)
	cmd.WaitDelay = time.Second
	out := &stream{complaint: &head{}, kill: cancel}
	cmd.Stderr = out.complaint
	var pipe io.Reader
	if out.in, err = cmd.StdinPipe(); err == nil {
		pipe, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	out.out = &limited{pipe, r.limit}
	out.wait = func() error {
		defer cancel()
		return cmd.Wait()
	}
	return out, nil
}
