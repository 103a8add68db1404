// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// ErrDenied is returned, with the code PERMISSION_DENIED, when the [Authorizer] denies a call.
var ErrDenied = errors.New("permission denied")

// Verb is an action of a call.
type Verb string

// The verbs.
const (
	VerbCreate      Verb = "create"      // Create
	VerbInstantiate Verb = "instantiate" // the event Instantiate
	VerbTerminate   Verb = "terminate"   // the event Terminate, and Instantiate with Rollout.RollbackOnFailure
	VerbUpdate      Verb = "update"      // the events Update and Rollback, once for each of the two app contexts
	VerbStop        Verb = "stop"        // Stop and ClearStop
	VerbRollout     Verb = "rollout"     // Approve, Pause, Resume and Abort
	VerbDetach      Verb = "detach"      // Detach, Attach and Forget
	VerbDelete      Verb = "delete"      // Delete
	VerbRead        Verb = "read"        // AppContext, Status, RolloutStatus, Wait, Diff, and the event Read
	VerbWatch       Verb = "watch"       // Watch, which also returns statuses, and EMCO's Alert and Unsubscribe
	VerbList        Verb = "list"        // List and Detached, which return the names of all app contexts
)

var verbs = []Verb{VerbCreate, VerbInstantiate, VerbTerminate, VerbUpdate, VerbStop, VerbRollout, VerbDetach,
	VerbDelete, VerbRead, VerbWatch, VerbList}

// Authorizer allows or denies calls. It is called for every call of the services, except health
// checks and reflection. Its methods may be called from any goroutine.
type Authorizer interface {
	// Authorize returns nil to allow a call, and an error that wraps [ErrDenied] to deny it.
	// Authorize may also return the errors of [Access.Targets]. All other errors are reported to
	// the client as failures of the store.
	Authorize(ctx context.Context, access *Access) error
}

// AuthorizerFunc is a function that implements [Authorizer].
type AuthorizerFunc func(ctx context.Context, access *Access) error

// Authorize implements [Authorizer].
func (f AuthorizerFunc) Authorize(ctx context.Context, access *Access) error { return f(ctx, access) }

// Access is one action of a client on one app context.
type Access struct {
	Client Identity
	Verb   Verb
	// AppContext is the ID of the app context. It is empty for VerbList and Forget.
	AppContext string

	targets func(context.Context) ([]Target, error) // nil: none
}

// Target is an app on a cluster. An app without clusters has one target, with an empty Cluster. The
// target of Forget is a cluster, with an empty App.
type Target struct {
	App     string
	Cluster appcontext.ClusterID
}

// cluster returns the cluster as text, or "" for an app without clusters.
func (t Target) cluster() string {
	if t.Cluster == (appcontext.ClusterID{}) {
		return ""
	}
	return t.Cluster.String()
}

// Targets returns the apps and clusters of the app context. For VerbCreate it uses the request,
// otherwise it reads the stored app context. For VerbDetach it returns only targets on the cluster
// of the call. The errors are those of [rsync.Engine].AppContext. It returns nothing for VerbList.
func (a *Access) Targets(ctx context.Context) ([]Target, error) {
	if a.targets == nil {
		return nil, nil
	}
	return a.targets(ctx)
}

// Identity has the names of a client's verified certificate, if it has one.
type Identity struct {
	CommonName     string
	URIs, DNSNames []string
}

// Names returns the names with a prefix for their kind: "uri:spiffe://example.com/orchestrator",
// "dns:orchestrator.example.com", "cn:orchestrator".
func (i Identity) Names() []string {
	var names []string
	for _, uri := range i.URIs {
		names = append(names, "uri:"+uri)
	}
	for _, name := range i.DNSNames {
		names = append(names, "dns:"+name)
	}
	if i.CommonName != "" {
		names = append(names, "cn:"+i.CommonName)
	}
	return names
}

func callerOf(ctx context.Context) Identity {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return Identity{}
	}
	return identityOf(p.AuthInfo)
}

func identityOf(auth credentials.AuthInfo) Identity {
	info, ok := auth.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return Identity{}
	}
	certificate := info.State.VerifiedChains[0][0]
	out := Identity{CommonName: certificate.Subject.CommonName, DNSNames: certificate.DNSNames}
	for _, uri := range certificate.URIs {
		out.URIs = append(out.URIs, uri.String())
	}
	return out
}

// Rules is an [Authorizer] that allows an action if a rule allows it.
type Rules []Rule

// Rule allows actions to clients. Except for Clients, an empty list matches everything. An entry
// matches the name that is equal to it. An entry that ends with "*" matches all names that begin
// with the text before the "*". [NewServer] and [Register] reject rules that match nothing.
type Rule struct {
	// Clients has names as [Identity].Names returns them, with the prefix cn:, dns: or uri:. "*"
	// matches all clients, also those without a certificate. It is required.
	Clients []string
	Verbs   []Verb
	// AppContexts has IDs. A rule with AppContexts does not allow VerbList and Forget, which
	// concern all app contexts.
	AppContexts []string
	// Apps has names, and Clusters has provider+name. If one of the two is set, the app context
	// must exist. Each app of the app context on each cluster must match Apps and Clusters of a
	// rule. The rule must also match the client, the verb and the ID. Different rules may match
	// different apps and clusters. For Detach and Attach, only the cluster of the call counts. A
	// rule with Apps or Clusters does not match VerbList or an app context without apps. A rule
	// with Apps does not match Forget. In Clusters, only "*" matches an app without clusters.
	Apps, Clusters []string
}

// validate returns an error for the first entry that matches nothing.
func (r Rules) validate() error {
	invalid := func(i int, format string, args ...any) error {
		return fmt.Errorf("%w: Options.Authorizer: Rules[%d]%s", rsync.ErrInvalidInput, i, fmt.Sprintf(format, args...))
	}
	for i, rule := range r {
		if len(rule.Clients) == 0 {
			return invalid(i, ".Clients: must not be empty: use \"*\" for all clients")
		}
		for _, client := range rule.Clients {
			kind, _, found := strings.Cut(client, ":")
			if client != "*" && (!found || !slices.Contains([]string{"cn", "dns", "uri"}, kind)) {
				return invalid(i, ".Clients: %q: must begin with cn:, dns: or uri:, or be *", client)
			}
		}
		for _, verb := range rule.Verbs {
			if !slices.Contains(verbs, verb) {
				return invalid(i, ".Verbs: %q: must be one of %q", verb, verbs)
			}
		}
		if slices.Contains(slices.Concat(rule.AppContexts, rule.Apps, rule.Clusters), "") {
			return invalid(i, ": must not have empty entries")
		}
		for _, cluster := range rule.Clusters {
			if !strings.Contains(cluster, "+") && !strings.HasSuffix(cluster, "*") {
				return invalid(i, ".Clusters: %q: must be provider+name", cluster)
			}
		}
	}
	return nil
}

// Authorize implements [Authorizer].
func (r Rules) Authorize(ctx context.Context, access *Access) error {
	var partial Rules
	for _, rule := range r {
		if !rule.matches(access) {
			continue
		}
		if len(rule.Apps) == 0 && len(rule.Clusters) == 0 {
			return nil
		}
		partial = append(partial, rule)
	}
	denied := fmt.Errorf("%w: %s app context %q", ErrDenied, access.Verb, access.AppContext)
	if len(partial) == 0 || access.Verb == VerbList {
		return denied
	}
	targets, err := access.Targets(ctx)
	switch {
	case errors.Is(err, rsync.ErrNotFound), err == nil && len(targets) == 0:
		return denied
	case err != nil:
		return err
	}
	for _, target := range targets {
		if !slices.ContainsFunc(partial, func(rule Rule) bool {
			return anyMatch(rule.Apps, target.App) && anyMatch(rule.Clusters, target.cluster())
		}) {
			return denied
		}
	}
	return nil
}

func (r *Rule) matches(access *Access) bool {
	known := slices.Contains(r.Clients, "*") || slices.ContainsFunc(access.Client.Names(), func(name string) bool {
		return len(r.Clients) > 0 && anyMatch(r.Clients, name)
	})
	return known && (len(r.Verbs) == 0 || slices.Contains(r.Verbs, access.Verb)) &&
		anyMatch(r.AppContexts, access.AppContext)
}

// anyMatch reports whether a text matches one of the patterns, or there are no patterns.
func anyMatch(patterns []string, text string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, open := strings.CutSuffix(pattern, "*")
		return open && strings.HasPrefix(text, prefix) || pattern == text
	})
}

func (s *service) ask(
	ctx context.Context, verb Verb, id string, targets func(context.Context) ([]Target, error),
) error {
	if s.options.Authorizer == nil {
		return nil
	}
	access := &Access{Client: callerOf(ctx), Verb: verb, AppContext: id, targets: targets}
	return s.options.Authorizer.Authorize(ctx, access)
}

// authorize asks the authorizer about an action on app contexts.
func (s *service) authorize(ctx context.Context, verb Verb, ids ...string) error {
	for _, id := range ids {
		stored := func(ctx context.Context) ([]Target, error) { return s.storedTargets(ctx, id) }
		if verb == VerbList {
			stored = nil
		}
		if err := s.ask(ctx, verb, id, stored); err != nil {
			return err
		}
	}
	return nil
}

// authorizeOn asks the authorizer about an action on one cluster of an app context, or, without an
// ID, of all app contexts.
func (s *service) authorizeOn(ctx context.Context, verb Verb, id string, cluster appcontext.ClusterID) error {
	return s.ask(ctx, verb, id, func(ctx context.Context) ([]Target, error) {
		if id == "" {
			return []Target{{Cluster: cluster}}, nil
		}
		all, err := s.storedTargets(ctx, id)
		return slices.DeleteFunc(all, func(t Target) bool { return t.Cluster != cluster }), err
	})
}

// authorizeNew asks the authorizer about an app context that is not stored yet.
func (s *service) authorizeNew(ctx context.Context, verb Verb, c *appcontext.AppContext) error {
	return s.ask(ctx, verb, c.ID, func(context.Context) ([]Target, error) { return targetsOf(c), nil })
}

func (s *service) storedTargets(ctx context.Context, id string) ([]Target, error) {
	c, end, err := s.readAppContext(ctx, id)
	if err != nil {
		return nil, err
	}
	defer end()
	return targetsOf(c), nil
}

func targetsOf(c *appcontext.AppContext) []Target {
	var out []Target
	for i := range c.Apps {
		if len(c.Apps[i].Clusters) == 0 {
			out = append(out, Target{App: c.Apps[i].Name})
		}
		for j := range c.Apps[i].Clusters {
			out = append(out, Target{App: c.Apps[i].Name, Cluster: c.Apps[i].Clusters[j].ClusterID})
		}
	}
	return out
}
