// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/gitserver"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/connectortest"
	"github.com/spokewire/sdk-go/rsync/connector/git"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var edge1 = appcontext.ClusterID{Provider: "edge", Name: "c1"}

// open returns the connector of edge+c1 in a repository. The end of the test closes it.
func open(t testing.TB, at git.Repository, options git.Options) connector.Connector {
	t.Helper()
	return openCluster(t, newConnectors(t, at, options), edge1)
}

func newConnectors(t testing.TB, at git.Repository, options git.Options) *git.Connectors {
	t.Helper()
	connectors, err := git.New(map[string]git.Repository{"*": at}, options)
	if err != nil {
		t.Fatal(err)
	}
	return connectors
}

func openCluster(t testing.TB, connectors connector.Connectors, id appcontext.ClusterID) connector.Connector {
	t.Helper()
	c, err := connectors.Connector(t.Context(), id.Provider, id.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func manifest(name, value string) []byte {
	return fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: shop}\ndata: {key: %q}\n",
		name, value)
}

func configMap(name string) appcontext.Object {
	return appcontext.Object{Kind: "ConfigMap", Namespace: "shop", Name: name}
}

// batch returns a batch of "name=value name=value".
func batch(text string) connector.Batch {
	b := connector.Batch{AppContextID: "ctx", App: "app", Cluster: edge1}
	for _, field := range strings.Fields(text) {
		name, value, _ := strings.Cut(field, "=")
		b.Resources = append(b.Resources, appcontext.Resource{Object: configMap(name), Manifest: manifest(name, value)})
	}
	return b
}

func apply(t testing.TB, c connector.Connector, text string) {
	t.Helper()
	if err := c.Apply(t.Context(), batch(text)); err != nil {
		t.Fatalf("Apply of %s: %v", text, err)
	}
}

// served is a repository with one transport. block and mend break and restore the transport.
type served struct {
	server      *gitserver.Server
	at          git.Repository
	proxy       *tcpproxy.Proxy
	block, mend func()
}

// ways are the transports of a repository.
var ways = map[string]func(t testing.TB, o gitserver.Options) served{
	"file": func(t testing.TB, o gitserver.Options) served {
		s := gitserver.New(t, o)
		return served{server: s, at: git.Repository{URL: "file://" + s.Path()}}
	},
	"http": func(t testing.TB, o gitserver.Options) served {
		s := gitserver.New(t, o)
		return overHTTP(t, s, "http", git.Repository{})
	},
	"https": func(t testing.TB, o gitserver.Options) served {
		ca := certtest.New(t)
		o.User, o.Password, o.Identity = "bot", "s3cr3t-word", ca.Issue(t, "git")
		return overHTTP(t, gitserver.New(t, o), "https", git.Repository{
			Auth: git.Auth{Username: "bot", Password: "s3cr3t-word"}, CAFile: ca.Write(t, t.TempDir(), "ca"),
		})
	},
	"ssh": func(t testing.TB, o gitserver.Options) served {
		s := gitserver.New(t, o)
		var proxy *tcpproxy.Proxy
		way := s.SSH()
		proxy = tcpproxy.Start(t, way.Addr)
		way.Know(t, proxy.Addr())
		return through(proxy, s, git.Repository{
			URL:  strings.Replace(way.URL, way.Addr, proxy.Addr(), 1),
			Auth: git.Auth{SSHKeyFile: way.KeyFile, KnownHostsFile: way.KnownHostsFile},
		})
	},
}

func overHTTP(t testing.TB, s *gitserver.Server, scheme string, at git.Repository) served {
	proxy := tcpproxy.Start(t, s.Addr())
	at.URL = scheme + "://" + proxy.Addr() + "/fleet.git"
	return through(proxy, s, at)
}

func through(proxy *tcpproxy.Proxy, s *gitserver.Server, at git.Repository) served {
	return served{server: s, at: at, proxy: proxy, block: func() { proxy.Block(); proxy.Cut() }, mend: proxy.Unblock}
}

// eachWay runs a test with each transport.
func eachWay(t *testing.T, o gitserver.Options, test func(t *testing.T, s served)) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) { test(t, way(t, o)) })
	}
}

func TestConformance(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			connectortest.Run(t, func(t *testing.T) connectortest.Cluster {
				s := way(t, gitserver.Options{})
				return connectortest.Cluster{
					Connector: open(t, s.at, git.Options{}), ID: edge1, Break: s.block, Mend: s.mend,
					Value: func(_ context.Context, name string) (string, error) {
						var have corev1.ConfigMap
						err := yaml.Unmarshal([]byte(s.server.Files()["edge+c1/default/ConfigMap/"+name+".yaml"]), &have)
						return have.Data["key"], err
					},
				}
			})
		})
	}
}
