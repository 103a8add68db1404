// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// refusalLimit limits the body of a rejection, in bytes.
const refusalLimit = 4 << 10

// httpClient has a transport, which is replaced after the CA file has changed.
type httpClient struct {
	transport *http.Transport
	ca        []byte
}

func (h *httpClient) close() {
	if h.transport != nil {
		h.transport.CloseIdleConnections()
	}
	h.transport = nil
}

// client returns a transport that trusts the current CAs in the CA file.
func (h *httpClient) client(caFile string) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	var ca []byte
	if caFile != "" {
		var err error
		if ca, err = os.ReadFile(caFile); err != nil {
			return nil, &fileError{caFile, err}
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, &fileError{caFile, errors.New("it has no certificate in PEM")}
		}
	}
	if h.transport == nil || !bytes.Equal(ca, h.ca) {
		h.close()
		h.ca = ca
		h.transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
		}
	}
	return h.transport, nil
}

// bounded limits the bytes of answers, and closes all answers, which go-git does not.
type bounded struct {
	http.RoundTripper
	limit  int64
	bodies []io.ReadCloser
}

func (b *bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		response.Body = readCloser{io.LimitReader(response.Body, refusalLimit), response.Body}
	} else {
		response.Body = readCloser{&limited{response.Body, b.limit}, response.Body}
	}
	b.bodies = append(b.bodies, response.Body)
	return response, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// httpSession is a session of go-git for one of the services.
type httpSession struct {
	upload  transport.UploadPackSession
	receive transport.ReceivePackSession
	answers *bounded
}

func (r *remote) openHTTP(s service) (session, error) {
	client, err := r.http.client(r.at.CAFile)
	if err != nil {
		return nil, err
	}
	auth, err := r.httpAuth()
	if err != nil {
		return nil, err
	}
	// go-git follows redirects of the first request only, to other servers without the credentials.
	out := &httpSession{answers: &bounded{RoundTripper: client, limit: r.limit}}
	git := githttp.NewClient(&http.Client{Transport: out.answers})
	endpoint := *r.endpoint // a redirect changes it
	if s == uploadPack {
		out.upload, err = git.NewUploadPackSession(&endpoint, auth)
	} else {
		out.receive, err = git.NewReceivePackSession(&endpoint, auth)
	}
	return out, err
}

func (r *remote) httpAuth() (transport.AuthMethod, error) {
	a := r.at.Auth
	token, err := r.secret(a.Token, a.TokenFile)
	if err != nil {
		return nil, err
	}
	password, err := r.secret(a.Password, a.PasswordFile)
	switch {
	case err != nil:
		return nil, err
	case token != "":
		return &githttp.TokenAuth{Token: token}, nil
	case a.Username != "" || password != "":
		if password != "" { // its encoded form is secret too
			_, _ = r.secret(base64.StdEncoding.EncodeToString([]byte(a.Username+":"+password)), "")
		}
		return &githttp.BasicAuth{Username: a.Username, Password: password}, nil
	}
	return nil, nil //nolint:nilnil // no credentials are what go-git knows as nil
}

func (s *httpSession) refs(ctx context.Context) (*packp.AdvRefs, error) {
	var refs *packp.AdvRefs
	var err error
	if s.upload != nil {
		refs, err = s.upload.AdvertisedReferencesContext(ctx)
	} else {
		refs, err = s.receive.AdvertisedReferencesContext(ctx)
	}
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return packp.NewAdvRefs(), nil
	}
	return refs, err
}

func (s *httpSession) fetch(ctx context.Context, request *packp.UploadPackRequest) (io.ReadCloser, error) {
	return s.upload.UploadPack(ctx, request)
}

func (s *httpSession) push(ctx context.Context, request *packp.ReferenceUpdateRequest) (*packp.ReportStatus, error) {
	report, err := s.receive.ReceivePack(ctx, request)
	if report != nil {
		err = nil // the report has the error
	}
	return report, err
}

// close also waits for hooks that the server runs after a push, until the context ends.
func (s *httpSession) close() {
	for _, body := range s.answers.bodies {
		_, _ = io.Copy(io.Discard, io.LimitReader(body, refusalLimit))
		_ = body.Close()
	}
	s.answers.bodies = nil
}
