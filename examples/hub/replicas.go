// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	workstore "github.com/spokewire/sdk-go/cloudevents/work/pgstore"
	"github.com/spokewire/sdk-go/examples/internal/backup"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/election"
	"github.com/spokewire/sdk-go/examples/internal/filestore"
	"github.com/spokewire/sdk-go/internal/postgres"
	"github.com/spokewire/sdk-go/internal/wait"
	statestore "github.com/spokewire/sdk-go/rsync/store/pgstore"
)

const (
	leaderKey = "/hub/leader/"
	secretKey = "/hub/replicas/"
	// reopenAfter is the time between two attempts to open the stores again.
	reopenAfter = time.Second
)

// replicate runs the hub as a replica until ctx ends. When it loses the leadership, it starts all
// parts again, as a follower.
func replicate(ctx context.Context, o options, listener net.Listener, broker connector) error {
	if o.Advertise == "" {
		o.Advertise = o.scheme() + "://" + advertised(listener.Addr())
	}
	log := klog.FromContext(ctx)
	var current atomic.Pointer[http.Handler]
	var ready atomic.Bool
	var outage atomic.Pointer[error] // why the first parts cannot be opened
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return serve(ctx, o, listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if handler := current.Load(); handler != nil {
				(*handler).ServeHTTP(w, r)
			} else {
				refuseEarly(w, r, outage.Load())
			}
		}))
	})
	group.Go(func() error {
		logged := ""
		var last *parts // shows the page until the next ones are open
		for ctx.Err() == nil {
			p, err := open(ctx, o, broker)
			first := last == nil
			switch {
			case err != nil && first && !postgres.Retryable(err): // a mistake, for example in the password
				return err
			case err != nil:
				message := "Failed to start, retrying"
				if outage.Store(&err); !first {
					last.outage.Store(&err)
					message = "Failed to start again, retrying"
				}
				if err.Error() != logged {
					logged = err.Error()
					log.Error(err, message)
				}
				_ = wait.Sleep(ctx, clock.RealClock{}, reopenAfter)
				continue
			case first:
				logged = ""
				log.Info("Started serving", "url", o.reachable(listener.Addr()))
			case logged != "":
				logged = ""
				log.Info("Started again")
			}
			p.ready = &ready
			handler := p.handler(ctx, o, listener.Addr())
			current.Store(&handler)
			last, err = p, p.run(ctx)
			if err != nil && !errors.Is(err, election.ErrDeposed) {
				return err
			}
			if ctx.Err() == nil {
				log.Info("Started again as a follower", "reason", err)
			}
		}
		return nil
	})
	return group.Wait()
}

// advertised returns the host at which other replicas usually reach a listener.
func advertised(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	host, err := os.Hostname()
	if !ok || !tcp.IP.IsUnspecified() || err != nil {
		return addr.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

// openDatabase opens the stores that the replicas share.
func (p *parts) openDatabase(ctx context.Context, o options) error {
	state, err := statestore.Open(ctx, statestore.Options{
		ConnString: o.Store, Name: o.Source, MaxTxnOps: filestore.MaxTxnOps,
	})
	if err != nil {
		return err
	}
	p.close = append(p.close, state.Close)
	works, err := workstore.Open(ctx, workstore.Options{ConnString: o.Store, Name: o.Source})
	if err != nil {
		return err
	}
	p.works, p.close = works, append(p.close, works.Close)
	p.state, p.healthy = state, state.Healthy
	return nil
}

// elect joins the election of the replicas that share the store.
func (p *parts) elect(ctx context.Context, o options) error {
	secret, err := election.Secret(ctx, p.state, secretKey)
	if err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	p.election = election.New(election.Options{
		Store: p.state, Key: leaderKey, Address: o.Advertise, Secret: secret, TLS: o.Login.Peer(),
		Log: klog.FromContext(ctx),
	})
	p.state, p.group = p.election.Store(), o.Source
	return nil
}

// follow takes part in the election until ctx ends or this replica has lost the leadership.
func (p *parts) follow(ctx context.Context) error {
	if !p.clusters.Health.Synced(ctx) {
		return nil
	}
	return command.Together(ctx, p.hub.Standby, func(ctx context.Context) error {
		return p.election.Start(ctx, func(ctx context.Context) error {
			if err := backup.Check(ctx, p.state); err != nil { // a restore may have begun after open
				return fmt.Errorf("%w: %w", election.ErrDeposed, err)
			}
			return p.lead(ctx)
		})
	})
}

// orForward returns a handler that forwards requests to the leader while this replica does not lead.
// Without a leader, it shows what this replica knows.
func (p *parts) orForward(own http.Handler) http.Handler {
	forward := p.election.Forward(p.login.Forward, func(w http.ResponseWriter, r *http.Request, reason string) {
		if isView(r) {
			own.ServeHTTP(w, r)
		} else {
			unavailable(w, r, reason)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.leads.Load() {
			own.ServeHTTP(w, r)
		} else {
			forward.ServeHTTP(w, r)
		}
	})
}

// refuseEarly answers a request before the first parts are open.
func refuseEarly(w http.ResponseWriter, r *http.Request, outage *error) {
	switch {
	case r.URL.Path == "/healthz": // a restart does not repair the database
		fmt.Fprintln(w, "ok")
	case outage == nil:
		unavailable(w, r, "this replica starts: retry in a second")
	default:
		w.Header().Set("Refresh", "2") // of the page
		unavailable(w, r, fmt.Sprintf("the database is down: %v", *outage))
	}
}

func unavailable(w http.ResponseWriter, r *http.Request, reason string) {
	w.Header().Set("Retry-After", "1")
	refuseWith(w, r, http.StatusServiceUnavailable, reason)
}
