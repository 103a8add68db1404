// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Identity is an authenticated client.
type Identity struct {
	// User is the common name of the client's certificate, or the user of its token.
	User string
	// Groups are the organizations of the certificate, or the groups of the token.
	Groups []string
	// Certificate is the verified certificate that identifies the client. It is nil for a token.
	Certificate *x509.Certificate
}

// TokenAuthenticator authenticates clients with bearer tokens. Its method may be called from any
// goroutine.
type TokenAuthenticator interface {
	// AuthenticateToken returns the identity of a token. If it returns an error, the server looks
	// at the certificate of the client. An error with the gRPC status code Unavailable means that a
	// client without a certificate should try again. The error must not contain the token.
	AuthenticateToken(ctx context.Context, token string) (Identity, error)
}

// Role is the side that a client acts as.
type Role string

// The roles.
const (
	// RoleSource publishes specs and reads statuses.
	RoleSource Role = "source"
	// RoleAgent reads specs and publishes statuses.
	RoleAgent Role = "agent"
)

// Access describes a publication or a subscription that a client requests. [PROTOCOL.md] has a
// table of all accesses of sources and agents.
//
// [PROTOCOL.md]: https://github.com/spokewire/sdk-go/blob/main/cloudevents/grpc/PROTOCOL.md#access
type Access struct {
	// Identity is the authenticated client.
	Identity Identity
	// Write is true for a publication, and false for a subscription.
	Write bool
	// Role is the role that the topic requires of the client. It is empty for topics outside
	// package work; then only Identity, Write and Topic are set.
	Role Role
	// Source and Cluster are the names in the topic. An empty name is the wildcard + of a
	// subscription, or a name that the topic does not have. Do not treat an empty name as allowed:
	// see the example of Authorizer.
	Source, Cluster string
	// Broadcast is true for a subscription to requests that address all agents, or all sources.
	// Such a topic has no cluster (for agents) or no source (for sources).
	Broadcast bool
	// Topic is the topic, or the topic filter without the name of a share group.
	Topic string
}

// Authorizer decides about publications and subscriptions.
type Authorizer interface {
	// Authorize is called for each publication and each topic filter, concurrently. It returns nil
	// to allow the access. An error with the gRPC status code Unavailable means that the client
	// should try again; any other error denies the access. The client receives the text of the
	// error.
	Authorize(ctx context.Context, a Access) error
}

// AuthorizerFunc is a function that is an [Authorizer].
type AuthorizerFunc func(ctx context.Context, a Access) error

// Authorize calls the function.
func (f AuthorizerFunc) Authorize(ctx context.Context, a Access) error { return f(ctx, a) }

// AuthorizeNames returns the default authorizer. A user acts as the agent of the cluster with its
// name, as in Mosquitto's patterns with %u. The user
// system:open-cluster-management:<cluster>:<agent> acts as an agent of that cluster. A user listed
// in sources acts as the source of that name, for all clusters, and never as an agent. So a cluster
// must not have the name of a source.
func AuthorizeNames(sources ...string) Authorizer {
	sources = slices.Clone(sources)
	return AuthorizerFunc(func(_ context.Context, a Access) error {
		role, name, wanted := RoleAgent, clusterOf(a.Identity.User), a.Cluster
		if slices.Contains(sources, a.Identity.User) {
			role, name, wanted = RoleSource, a.Identity.User, a.Source
		}
		switch {
		case name == "" && a.Identity.User == "":
			return errors.New("the client has no name: it needs a certificate with a common name, or a token")
		case name != "" && a.Role == role && (a.Broadcast || wanted == name):
			return nil
		case a.Role == RoleAgent && a.Cluster != "":
			return fmt.Errorf("user %q may not act as the agent of cluster %q", a.Identity.User, a.Cluster)
		case a.Role == RoleSource && a.Source != "":
			return fmt.Errorf("user %q may not act as source %q", a.Identity.User, a.Source)
		}
		return fmt.Errorf("user %q may act only as the agent of its own cluster, or as the source with its name",
			a.Identity.User)
	})
}

// clusterOf returns the cluster of a user.
func clusterOf(user string) string {
	if rest, ok := strings.CutPrefix(user, "system:open-cluster-management:"); ok {
		cluster, agent, _ := strings.Cut(rest, ":")
		if agent == "" {
			return ""
		}
		return cluster
	}
	return user
}

// topicRule is a kind of topics of package work, with the roles that use it.
type topicRule struct {
	levels         []string // with the levels "{source}" and "{cluster}"
	writer, reader Role
}

var topicRules = func() (rules []topicRule) {
	add := func(writer, reader Role, patterns ...string) {
		for _, p := range patterns {
			rules = append(rules, topicRule{strings.Split(p, "/"), writer, reader})
		}
	}
	add(RoleSource, RoleAgent,
		"/sources/{source}/clusters/{cluster}/manifests", "/sources/{source}/clusters/{cluster}/statusresync",
		"/sources/{source}/resync/clusters/manifestsstatus",
		"sources/{source}/clusters/{cluster}/sourceevents", "sources/{source}/consumers/{cluster}/sourceevents",
		"sources/{source}/sourcebroadcast")
	add(RoleAgent, RoleSource,
		"/sources/{source}/clusters/{cluster}/manifestsstatus", "/sources/{source}/clusters/{cluster}/specresync",
		"/sources/resync/{cluster}/manifests",
		"sources/{source}/clusters/{cluster}/agentevents", "sources/{source}/consumers/{cluster}/agentevents",
		"clusters/{cluster}/agentbroadcast", "consumers/{cluster}/agentbroadcast")
	add(RoleSource, RoleSource, "/sources/{source}/presence", "sources/{source}/presence")
	add(RoleAgent, RoleAgent, "/clusters/{cluster}/presence", "clusters/{cluster}/presence",
		"consumers/{cluster}/presence")
	return rules
}()

// describe sets the topic, and the parts of an access that follow from it.
func (a *Access) describe(levels []string) {
	a.Topic = strings.Join(levels, "/")
	for _, rule := range topicRules {
		if rule.match(levels, a) {
			return
		}
	}
}

func (r topicRule) match(levels []string, a *Access) bool {
	if len(levels) != len(r.levels) {
		return false
	}
	var source, cluster string
	hasSource, hasCluster := false, false
	for i, level := range levels {
		name := strings.TrimPrefix(level, "+") // a wildcard means all
		switch r.levels[i] {
		case "{source}":
			source, hasSource = name, true
		case "{cluster}":
			cluster, hasCluster = name, true
		case level:
		default:
			return false
		}
	}
	a.Role, a.Source, a.Cluster = r.reader, source, cluster
	if a.Write {
		a.Role = r.writer
	}
	a.Broadcast = a.Role == RoleSource && !hasSource || a.Role == RoleAgent && !hasCluster
	return true
}
