// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/connlimit"
	"github.com/spokewire/sdk-go/internal/httpserve"
	"github.com/spokewire/sdk-go/internal/tlsfiles"
)

const (
	maxRequest   = 16 << 10
	issueTimeout = 30 * time.Second

	pathCA           = "/join/v1/ca"
	pathCertificates = "/join/v1/certificates"
)

// Reason is the reason of a refusal.
type Reason string

// The reasons of refusals.
const (
	// ReasonTokenUnknown is for a token that was deleted, or never existed, or has another secret.
	ReasonTokenUnknown Reason = "TokenUnknown"
	// ReasonTokenExpired is for a token after its end.
	ReasonTokenExpired Reason = "TokenExpired"
	// ReasonTokenUsed is for a token that other agents have used.
	ReasonTokenUsed Reason = "TokenUsed"
	// ReasonRevoked is for a renewal after the revocation of the cluster.
	ReasonRevoked Reason = "Revoked"
	// ReasonInvalid is for a request with another cluster, an unsupported key, or no credentials.
	ReasonInvalid Reason = "Invalid"
)

var statusOf = map[Reason]int{
	ReasonTokenUnknown: http.StatusUnauthorized, ReasonTokenExpired: http.StatusUnauthorized,
	ReasonTokenUsed: http.StatusUnauthorized, ReasonRevoked: http.StatusForbidden,
	ReasonInvalid: http.StatusBadRequest,
}

// RefusedError is returned to an agent if the server refuses its request. A retry does not help.
type RefusedError struct {
	Reason  Reason `json:"reason"`
	Message string `json:"error"`
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Message }

func refusef(reason Reason, format string, args ...any) *RefusedError {
	return &RefusedError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// answer is the answer to a request for a certificate.
type answer struct {
	Cluster     string `json:"cluster"`
	Certificate string `json:"certificate"`
	CA          string `json:"ca"`
}

// Serve serves agents over HTTPS until ctx ends. It returns an error if a file cannot be read, or if
// the listener fails. It needs Start.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	if _, err := s.tlsConfig(); err != nil {
		_ = listener.Close()
		return fmt.Errorf("serve at %s: %w", listener.Addr(), err)
	}
	return httpserve.Serve(ctx, listener, httpserve.Options{
		Handler: s.handler(), MaxBody: maxRequest, AnswerTimeout: issueTimeout + 10*time.Second,
		TLSConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.tlsConfig() },
		},
	})
}

func (s *Server) tlsConfig() (*tls.Config, error) {
	pair, err := tlsfiles.Pair(s.options.CertFile, s.options.KeyFile)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*pair}, NextProtos: []string{"http/1.1"},
		ClientAuth: tls.VerifyClientCertIfGiven, SessionTicketsDisabled: true, Time: s.options.Clock.Now,
	}
	config.ClientCAs, err = tlsfiles.Authorities("CACertFile", s.options.CACertFile)
	return config, err
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathCA, func(w http.ResponseWriter, _ *http.Request) {
		content, err := os.ReadFile(s.options.CACertFile)
		if err != nil {
			http.Error(w, "the CA cannot be read", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/x-pem-file")
		_, _ = w.Write(content)
	})
	mux.HandleFunc("POST "+pathCertificates, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), issueTimeout)
		defer cancel()
		out, err := s.certify(r.WithContext(ctx))
		s.respond(w, r, out, err)
	})
	return mux
}

func (s *Server) respond(w http.ResponseWriter, r *http.Request, out *answer, err error) {
	w.Header().Set("Content-Type", "application/json")
	refused := new(RefusedError)
	switch {
	case err == nil:
		_ = json.NewEncoder(w).Encode(out)
	case errors.As(err, &refused):
		s.refusals.Error(klog.FromContext(r.Context()), err, string(refused.Reason), connlimit.Address(r.RemoteAddr))
		w.WriteHeader(statusOf[refused.Reason])
		_ = json.NewEncoder(w).Encode(refused)
	default:
		klog.FromContext(r.Context()).Error(err, "Failed to issue a certificate", "client",
			connlimit.Address(r.RemoteAddr))
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(RefusedError{Message: "the hub cannot issue a certificate now: its log has the cause"})
	}
}

// certify issues the certificate that a request with a token or a client certificate asks for.
func (s *Server) certify(r *http.Request) (*answer, error) {
	ctx := r.Context()
	csr, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxRequest))
	if err != nil {
		return nil, refusef(ReasonInvalid, "the body cannot be read: %v", err)
	}
	var granted *issue
	text, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case bearer:
		t, err := ParseToken(text)
		if err != nil {
			return nil, refusef(ReasonTokenUnknown, "%v", err)
		}
		granted, err = s.redeem(ctx, t, csr)
		if err != nil {
			return nil, err
		}
		err = s.record(ctx, granted.cluster, membership.joined)
		if err == nil {
			err = s.apply(ctx)
		}
		if err != nil {
			return nil, err
		}
		klog.FromContext(ctx).Info("Joined a cluster", "cluster", granted.cluster, "token", t.id)
	case r.TLS != nil && len(r.TLS.VerifiedChains) > 0:
		if granted, err = s.renew(ctx, r.TLS, csr); err != nil {
			return nil, err
		}
		klog.FromContext(ctx).V(1).Info("Renewed the certificate of a cluster", "cluster", granted.cluster)
	default:
		return nil, refusef(ReasonInvalid, "the request has neither a token nor a valid client certificate")
	}
	return s.sign(granted)
}

// renew checks the certificate of a renewal in the store.
func (s *Server) renew(ctx context.Context, state *tls.ConnectionState, csrPEM []byte) (*issue, error) {
	cert := state.VerifiedChains[0][0]
	cluster, number := cert.Subject.CommonName, incarnationOf(cert)
	if number == 0 || s.checkName(cluster) != nil {
		return nil, refusef(ReasonInvalid, "the certificate of %.63q does not come from a join", cluster)
	}
	_, m, err := get[membership](ctx, s.options.Store, clusterPrefix+cluster)
	if err != nil {
		return nil, err
	}
	if number < m.First {
		return nil, refusef(ReasonRevoked, "%v", ErrRevoked)
	}
	csr, err := parseRequest(csrPEM, cluster)
	if err != nil {
		return nil, refusef(ReasonInvalid, "%v", err)
	}
	return &issue{cluster: cluster, number: number, csr: csr}, nil
}

func (s *Server) sign(i *issue) (*answer, error) {
	authority, err := LoadAuthority(s.options.CACertFile, s.options.CAKeyFile)
	if err != nil {
		return nil, err
	}
	cert, err := authority.agent(i.cluster, i.number, i.csr.PublicKey, s.options.Lifetime, s.options.Clock.Now())
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(s.options.CACertFile)
	if err != nil {
		return nil, err
	}
	return &answer{Cluster: i.cluster, Certificate: string(certPEM(cert)), CA: string(ca)}, nil
}
