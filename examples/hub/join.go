// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/cloudevents/mqtt/dynsec"
	"github.com/spokewire/sdk-go/examples/internal/certexpiry"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/internal/httpserve"
	"github.com/spokewire/sdk-go/rsync/store"
)

// joinPrefix is the prefix of the keys with tokens and clusters.
const joinPrefix = "/hub/join/"

// certificates are the files of --certs, as hub certs writes them.
type certificates string

func (c certificates) cert(name string) string { return filepath.Join(string(c), name+".crt") }
func (c certificates) key(name string) string  { return filepath.Join(string(c), name+".key") }

// openJoin opens the server that issues certificates to agents.
func (p *parts) openJoin(o options) (err error) {
	if o.JoinListen == "" {
		return nil
	}
	var apply func(context.Context, []join.Change) error
	if o.GRPC == "" {
		broker, err := dynsec.New(dynsec.Options{Broker: o.Broker, SourceID: o.Source})
		if err != nil {
			return fmt.Errorf("--join-listen: %w", err)
		}
		apply = broker.Apply
	}
	p.join, err = join.NewServer(join.ServerOptions{
		Apply: apply, Store: records{p.state}, Lifetime: o.CertLifetime, Reserved: []string{o.Source},
		CertFile: o.Certs.cert("hub"), KeyFile: o.Certs.key("hub"),
		CACertFile: o.Certs.cert("ca"), CAKeyFile: o.Certs.key("ca"),
		Revoked: func() {
			if p.recheck != nil {
				p.recheck()
			}
		},
	})
	return err
}

// withJoins returns a function that serves joining agents, and calls agents when the revoked clusters
// are known.
func (p *parts) withJoins(
	o options, agents func(context.Context) error,
) func(context.Context) error {
	if p.join == nil {
		return agents
	}
	return func(ctx context.Context) error {
		listener, err := net.Listen("tcp", o.JoinListen)
		if err != nil {
			return fmt.Errorf("--join-listen: %w", err)
		}
		return command.Together(ctx, p.join.Start, func(ctx context.Context) error {
			select {
			case <-p.join.Ready():
			case <-ctx.Done():
				return listener.Close()
			}
			klog.FromContext(ctx).Info("Started serving joins", "url", "https://"+listener.Addr().String())
			return command.Together(ctx, agents, func(ctx context.Context) error { return p.join.Serve(ctx, listener) })
		})
	}
}

// authorizer refuses revoked agents.
func (p *parts) authorizer() grpc.Authorizer {
	names := grpc.AuthorizeNames()
	if p.join == nil {
		return names
	}
	return grpc.AuthorizerFunc(func(ctx context.Context, a grpc.Access) error {
		if err := p.join.Check(a.Identity.Certificate); err != nil {
			return err
		}
		return names.Authorize(ctx, a)
	})
}

// revoked reports whether the certificates of a cluster are revoked.
func (p *parts) revoked(cluster string) bool { return p.join != nil && p.join.Revoked(cluster) }

// useCerts sets the files that --certs has and no other flag. The CA of agents must not be one of users.
func (o *options) useCerts(flags command.Flags) {
	if o.Server.ClientCAFile != "" {
		o.Login.OtherCAFiles = []string{o.Server.ClientCAFile}
	}
	if o.Certs == "" {
		return
	}
	o.Login.OtherCAFiles = append(o.Login.OtherCAFiles, o.Certs.cert("ca"))
	if host, _, err := net.SplitHostPort(o.Listen); err == nil && !httpserve.Loopback(host) && o.Login.CertFile == "" &&
		o.Login.KeyFile == "" {
		o.Login.CertFile, o.Login.KeyFile = o.Certs.cert("hub"), o.Certs.key("hub")
	}
	files := map[string][3]*string{
		"grpc":   {&o.Server.CertFile, &o.Server.KeyFile, &o.Server.ClientCAFile},
		"broker": {&o.Broker.CertFile, &o.Broker.KeyFile, &o.Broker.CAFile},
	}
	for flag, name := range map[string]string{"grpc": "hub", "broker": "client"} {
		if !flags.Given(flag) {
			continue
		}
		to := files[flag]
		if *to[0] == "" && *to[1] == "" {
			*to[0], *to[1] = o.Certs.cert(name), o.Certs.key(name)
		}
		if *to[2] == "" {
			*to[2] = o.Certs.cert("ca")
		}
	}
}

// expiry returns the metric of the certificates that the hub uses, and of all in --certs.
func (o options) expiry() prometheus.Collector {
	chains := []string{o.Server.CertFile, o.Broker.CertFile}
	authorities := []string{o.Server.ClientCAFile, o.Broker.CAFile}
	if o.Certs != "" {
		chains = append(chains, o.Certs.cert("hub"), o.Certs.cert("client"), o.Certs.cert("broker"))
		authorities = append(authorities, o.Certs.cert("ca"))
	}
	return certexpiry.New(chains, authorities)
}

func (o options) validateJoin(flags command.Flags) error {
	if o.JoinListen == "" {
		for _, name := range []string{"join-url", "cert-lifetime"} {
			if flags.Given(name) {
				return fmt.Errorf("--%s needs --join-listen", name)
			}
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(o.JoinListen); err != nil {
		return fmt.Errorf("--join-listen: %q: must be host:port or :port", o.JoinListen)
	}
	if o.Certs == "" {
		return errors.New("--join-listen needs --certs: make the certificates with hub certs")
	}
	if u, err := url.Parse(o.JoinURL); o.JoinURL != "" &&
		(err != nil || u.Host == "" || *u != (url.URL{Scheme: "https", Host: u.Host})) {
		return fmt.Errorf("--join-url: %q: must be https://HOST:PORT", o.JoinURL)
	}
	return nil
}

// checkJoin checks the CA of --join-listen.
func (o options) checkJoin() error {
	if o.JoinListen == "" {
		return nil
	}
	if _, err := join.LoadAuthority(o.Certs.cert("ca"), o.Certs.key("ca")); err != nil {
		return fmt.Errorf("--certs: %w: make the files with hub certs", err)
	}
	return nil
}

// joinURL returns the URL for agents.
func (o options) joinURL() string {
	if o.JoinURL != "" || o.JoinListen == "" {
		return o.JoinURL
	}
	host, port, _ := net.SplitHostPort(o.JoinListen)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host, _ = os.Hostname()
	}
	return "https://" + net.JoinHostPort(host, port)
}

// records is a store of package join in the store of the hub.
type records struct{ data store.Data }

func record(kv store.KeyValue) join.Record {
	return join.Record{Key: strings.TrimPrefix(kv.Key, joinPrefix), Value: kv.Value, Version: kv.ModRevision}
}

// Get implements [join.Store].
func (r records) Get(ctx context.Context, key string) (join.Record, error) {
	kv, err := r.data.Get(ctx, joinPrefix+key)
	return record(kv), err
}

// List implements [join.Store].
func (r records) List(ctx context.Context) ([]join.Record, error) {
	all, err := r.data.Range(ctx, joinPrefix)
	out := make([]join.Record, len(all.KVs))
	for i, kv := range all.KVs {
		out[i] = record(kv)
	}
	return out, err
}

// Put implements [join.Store].
func (r records) Put(ctx context.Context, to join.Record) error {
	key := joinPrefix + to.Key
	op := store.Put(key, to.Value)
	if to.Value == nil {
		op = store.Delete(key)
	}
	result, err := r.data.Txn(ctx, []store.Compare{{Key: key, Revision: to.Version}}, []store.Op{op})
	if err == nil && !result.Succeeded {
		return join.ErrConflict
	}
	return err
}

// Watch implements [join.Store].
func (r records) Watch(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	events := r.data.Watch(ctx, joinPrefix, 0)
	go func() {
		defer close(out)
		for watched := range events {
			if watched.Err != nil {
				return
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out
}
