// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/tlsfiles"
	"github.com/spokewire/sdk-go/internal/wait"
)

const (
	mostRenewalPause = 5 * time.Minute
	// lookPause is the most time until a certificate that was replaced by a join is read.
	lookPause = time.Minute
)

// RenewerOptions configures a [Renewer]. Dir is required.
type RenewerOptions struct {
	// Dir is the folder of [Join].
	Dir string
	// Renewed is called after each renewal, and after each failure with its error. It must not block.
	// Defaults to none.
	Renewed func(cert *x509.Certificate, err error)
	// Clock is the clock of certificates. Defaults to the real one.
	Clock clock.Clock
}

// Renewer renews an agent's certificate. Run one for a folder.
type Renewer struct {
	options RenewerOptions
	jitter  float64 // from 0 to 1, of a tenth of the lifetime
}

// NewRenewer returns a renewer. It returns an error if the folder has no certificate.
func NewRenewer(o RenewerOptions) (*Renewer, error) {
	if _, err := readHub(o.Dir); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Dir, err)
	}
	if _, _, err := current(o.Dir); err != nil {
		return nil, err
	}
	o.Clock = cmp.Or[clock.Clock](o.Clock, clock.RealClock{})
	return &Renewer{options: o, jitter: mathrand.Float64()}, nil
}

// Start renews the certificate until ctx ends, and returns nil then. Failures are logged once and
// retried, also after the end of the certificate: another [Join] of the folder ends them.
func (r *Renewer) Start(ctx context.Context) error {
	logger, logged := klog.FromContext(ctx), ""
	for attempt := 0; ctx.Err() == nil; {
		cert, pair, err := current(r.options.Dir)
		life := lookPause
		if err == nil {
			life = cert.NotAfter.Sub(cert.NotBefore)
			if left := r.due(cert).Sub(r.options.Clock.Now()); left > 0 {
				attempt, logged = 0, ""
				_ = wait.Sleep(ctx, r.options.Clock, min(left, lookPause))
				continue
			}
			cert, err = r.renew(ctx, cert, pair)
		}
		most := min(mostRenewalPause, life/20)
		pause := most // a wrong clock must not lead to a renewal at once
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			attempt, logged = 0, ""
			logger.V(1).Info("Renewed the certificate of the agent", "cluster", cert.Subject.CommonName,
				"expires", cert.NotAfter)
		default:
			if err.Error() != logged {
				logged = err.Error()
				logger.Error(err, "Failed to renew the certificate of the agent, retrying")
			}
			pause = wait.Backoff(min(time.Second, most), most, attempt)
			attempt++
		}
		if r.options.Renewed != nil {
			r.options.Renewed(cert, err)
		}
		_ = wait.Sleep(ctx, r.options.Clock, pause)
	}
	return nil
}

// due returns when to renew: after two thirds of the lifetime, and up to a tenth as jitter.
func (r *Renewer) due(cert *x509.Certificate) time.Time {
	life := cert.NotAfter.Sub(cert.NotBefore)
	return cert.NotBefore.Add(life*2/3 + time.Duration(r.jitter*float64(life)/10))
}

func (r *Renewer) renew(ctx context.Context, cert *x509.Certificate, pair *tls.Certificate) (*x509.Certificate,
	error) {
	now := r.options.Clock.Now()
	if !now.Before(cert.NotAfter) {
		return nil, fmt.Errorf("the certificate expired at %s: join again with a new token, or check the clock",
			cert.NotAfter.UTC().Format(time.RFC3339))
	}
	h, err := readHub(r.options.Dir)
	if err != nil {
		return nil, err
	}
	authorities, err := tlsfiles.Authorities("the CA", FilesIn(r.options.Dir).CA)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: authorities, Certificates: []tls.Certificate{*pair},
		Time: r.options.Clock.Now,
	}
	out, err := request(ctx, config, h.URL, h.Cluster, key, "")
	if err != nil {
		return nil, err
	}
	if out.Cluster != h.Cluster {
		return nil, errors.New("the hub sent a certificate for another cluster")
	}
	again, _, err := current(r.options.Dir)
	if err == nil && !again.Equal(cert) {
		return again, nil // a join has replaced it meanwhile
	}
	return out.write(r.options.Dir, h.URL, key, authorities, now)
}
