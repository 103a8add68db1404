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

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/cloudevents/join/rsyncstore"
	"github.com/spokewire/sdk-go/cloudevents/mqtt/dynsec"
	"github.com/spokewire/sdk-go/examples/internal/certexpiry"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/internal/httpserve"
)

// joinPrefix is the prefix of the keys with tokens and clusters.
const joinPrefix = "/hub/join/"

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
		Apply: apply, Store: rsyncstore.New(p.state, joinPrefix), Lifetime: o.CertLifetime, Reserved: []string{o.Source},
		CertFile: o.Certs.Cert("hub"), KeyFile: o.Certs.Key("hub"),
		CACertFile: o.Certs.Cert("ca"), CAKeyFile: o.Certs.Key("ca"),
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
func (p *parts) withJoins(o options, agents func(context.Context) error) func(context.Context) error {
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
	o.Login.OtherCAFiles = append(o.Login.OtherCAFiles, o.Certs.Cert("ca"))
	if host, _, err := net.SplitHostPort(o.Listen); err == nil && !httpserve.Loopback(host) && o.Login.CertFile == "" &&
		o.Login.KeyFile == "" {
		o.Login.CertFile, o.Login.KeyFile = o.Certs.Cert("hub"), o.Certs.Key("hub")
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
			*to[0], *to[1] = o.Certs.Cert(name), o.Certs.Key(name)
		}
		if *to[2] == "" {
			*to[2] = o.Certs.Cert("ca")
		}
	}
}

// expiry returns the metric of the certificates that the hub uses, and of all in --certs.
func (o options) expiry() prometheus.Collector {
	chains := []string{o.Server.CertFile, o.Broker.CertFile}
	authorities := []string{o.Server.ClientCAFile, o.Broker.CAFile}
	if o.Certs != "" {
		chains = append(chains, o.Certs.Cert("hub"), o.Certs.Cert("client"), o.Certs.Cert("broker"))
		authorities = append(authorities, o.Certs.Cert("ca"))
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
	if _, err := join.LoadAuthority(o.Certs.Cert("ca"), o.Certs.Key("ca")); err != nil {
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
