// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// service is a program on the server.
type service string

const (
	uploadPack  service = transport.UploadPackServiceName
	receivePack service = transport.ReceivePackServiceName
)

// session is one exchange with a service. Its calls end soon after the context of open.
type session interface {
	// refs is the first call. It returns the references and the capabilities of the server.
	refs(ctx context.Context) (*packp.AdvRefs, error)
	// fetch and push are the last calls, each for one of the services.
	fetch(ctx context.Context, request *packp.UploadPackRequest) (io.ReadCloser, error)
	push(ctx context.Context, request *packp.ReferenceUpdateRequest) (*packp.ReportStatus, error)
	// close may be called at any time, and twice.
	close()
}

// remote is a repository on its server. It is used by one goroutine at a time.
type remote struct {
	at       Repository
	endpoint *transport.Endpoint
	limit    int64
	http     httpClient
	key      openedKey
	secrets  []string // which messages must not contain
}

func newRemote(at Repository, limit int64) (*remote, error) {
	endpoint, err := transport.NewEndpoint(at.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: the URL cannot be parsed", ErrInvalid)
	}
	r := &remote{at: at, endpoint: endpoint, limit: limit}
	if endpoint.Protocol == "ssh" && endpoint.User == "" {
		endpoint.User = cmp.Or(at.Auth.Username, "git")
	}
	return r, nil
}

func (r *remote) open(ctx context.Context, s service) (session, error) {
	switch r.endpoint.Protocol {
	case "http", "https":
		return r.openHTTP(s)
	case "ssh":
		return r.openSSH(ctx, s)
	}
	return r.openLocal(ctx, s)
}

func (r *remote) close() { r.http.close() }

// secret returns a secret that is given or in a file, and records it for failed.
func (r *remote) secret(given, file string) (string, error) {
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", &fileError{file, err}
		}
		given = strings.TrimRight(string(text), "\r\n")
		if given == "" {
			return "", &fileError{file, errors.New("it is empty")}
		}
	}
	const kept = 8 // secrets that were replaced recently may still be in an error
	if given != "" && !slices.Contains(r.secrets, given) {
		r.secrets = append(r.secrets, given)
		r.secrets = r.secrets[max(0, len(r.secrets)-kept):]
	}
	return given, nil
}

// fileError is the error of a file of the configuration, which may be in replacement.
type fileError struct {
	file string
	err  error
}

func (e *fileError) Error() string {
	var pathError *os.PathError
	if errors.As(e.err, &pathError) {
		return fmt.Sprintf("%s: %s", e.file, pathError.Err)
	}
	return fmt.Sprintf("%s: %s", e.file, e.err)
}

func (e *fileError) Unwrap() error { return e.err }

// tip returns the commit at the tip of the branch, or zero if the branch does not exist.
func (r *remote) tip(refs *packp.AdvRefs) plumbing.Hash {
	return refs.References[plumbing.NewBranchReferenceName(r.at.Branch).String()]
}

// inTheWay returns a branch that excludes the configured branch: main excludes main/x.
func (r *remote) inTheWay(refs *packp.AdvRefs) string {
	ours := plumbing.NewBranchReferenceName(r.at.Branch).String()
	for name := range refs.References {
		if strings.HasPrefix(ours, name+"/") || strings.HasPrefix(name, ours+"/") {
			return strings.TrimPrefix(name, "refs/heads/")
		}
	}
	return ""
}

// newRequest requests objects, without messages for people.
func newRequest(refs *packp.AdvRefs, wants ...plumbing.Hash) *packp.UploadPackRequest {
	request := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	request.Wants = wants
	if refs.Capabilities.Supports("no-progress") {
		_ = request.Capabilities.Set("no-progress")
	}
	return request
}

// withoutHistory limits a request to one commit, if the server can do that.
func withoutHistory(refs *packp.AdvRefs, request *packp.UploadPackRequest) {
	if refs.Capabilities.Supports(capability.Shallow) {
		_ = request.Capabilities.Set(capability.Shallow)
		request.Depth = packp.DepthCommits(1)
	}
}

// fetchRequest requests one commit with its folders, and without files if the server can omit them.
func fetchRequest(refs *packp.AdvRefs, want, have plumbing.Hash) *packp.UploadPackRequest {
	request := newRequest(refs, want)
	withoutHistory(refs, request)
	if refs.Capabilities.Supports(capability.Filter) {
		_ = request.Capabilities.Set(capability.Filter)
		request.Filter = packp.FilterBlobNone()
	}
	if !have.IsZero() {
		request.Haves = []plumbing.Hash{have}
		if request.Capabilities.Supports(capability.Shallow) {
			request.Shallows = []plumbing.Hash{have}
		}
	}
	return request
}

// filesRequest requests files by their hashes, or all files of a commit if it must.
func filesRequest(refs *packp.AdvRefs, tip plumbing.Hash, hashes []plumbing.Hash) *packp.UploadPackRequest {
	if refs.Capabilities.Supports(capability.AllowReachableSHA1InWant) ||
		refs.Capabilities.Supports("allow-any-sha1-in-want") {
		return newRequest(refs, hashes...)
	}
	request := newRequest(refs, tip)
	withoutHistory(refs, request)
	return request
}

// pushRequest moves the branch, which the server rejects if the branch is not at from.
func (r *remote) pushRequest(
	refs *packp.AdvRefs, from, to plumbing.Hash, pack io.ReadCloser,
) *packp.ReferenceUpdateRequest {
	request := packp.NewReferenceUpdateRequestFromCapabilities(refs.Capabilities)
	if refs.Capabilities.Supports(capability.Sideband64k) {
		_ = request.Capabilities.Set(capability.Sideband64k) // keeps connections alive while hooks run
	}
	request.Commands = []*packp.Command{{Name: plumbing.NewBranchReferenceName(r.at.Branch), Old: from, New: to}}
	request.Packfile = pack
	return request
}

// checkFormat rejects repositories with other hashes than SHA-1.
func checkFormat(refs *packp.AdvRefs) error {
	for _, format := range refs.Capabilities.Get(capability.ObjectFormat) {
		if format != "sha1" {
			return errObjectFormat
		}
	}
	return nil
}

// limited fails with errTooLarge after a number of bytes.
type limited struct {
	io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
