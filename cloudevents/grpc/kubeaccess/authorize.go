// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubeaccess

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/internal/cut"
)

const (
	groupWork   = "work.open-cluster-management.io"
	groupSource = "cloudevents.spokewire.io"
	reviewOfSAR = "subjectaccessreviews"
)

// right is a right of RBAC. An empty namespace means all namespaces, and an empty name all names.
type right struct{ verb, group, resource, subresource, namespace, name string }

// question is about a user. It has the groups as text, since a key of a map has no slices.
type question struct {
	user, groups string
	right        right
}

// overhead is about the memory of an answer without its texts, in bytes.
const overhead = 512

func sizeOfRight(q question, _ bool) int {
	return overhead + len(q.user) + len(q.groups) + len(q.right.namespace) + len(q.right.name)
}

// Authorize implements [grpc.Authorizer]. The package doc has the rights of each access. An error has
// the status code Unavailable if the API server did not decide.
func (r *Reviews) Authorize(ctx context.Context, a grpc.Access) error {
	if a.Identity.User == "" && len(a.Identity.Groups) == 0 {
		return errors.New("the client has no user and no groups")
	}
	rights, ok := rightsFor(a)
	if !ok {
		return errors.New("it is not a topic of works")
	}
	groups := fmt.Sprintf("%q", a.Identity.Groups)
	for _, wanted := range rights {
		if err := r.check(ctx, a.Identity, groups, wanted); err != nil {
			return err
		}
	}
	return nil
}

// rightsFor returns the rights that an access needs. It returns false for topics that are not package
// work's.
func rightsFor(a grpc.Access) ([]right, bool) {
	works := func(subresource string, verbs ...string) (rights []right) {
		for _, verb := range verbs {
			rights = append(rights, right{verb, groupWork, "manifestworks", subresource, a.Cluster, ""})
		}
		return rights
	}
	kind := a.Topic[strings.LastIndexByte(a.Topic, '/')+1:]
	switch a.Role {
	case grpc.RoleAgent:
		if a.Broadcast {
			return nil, true
		}
		return agentRights(a.Write, kind, works)
	case grpc.RoleSource:
		rights, ok := sourceRights(a.Write, kind, works)
		if !a.Broadcast {
			rights = append([]right{{"use", groupSource, "sources", "", "", a.Source}}, rights...)
		}
		return rights, ok
	}
	return nil, false
}

type rightsOf func(subresource string, verbs ...string) []right

func agentRights(write bool, kind string, works rightsOf) ([]right, bool) {
	switch {
	case !write || kind == "presence":
		return works("", "watch"), true
	case kind == "manifestsstatus":
		return works("status", "update"), true
	case kind == "specresync" || kind == "manifests" || kind == "agentbroadcast":
		return works("", "list"), true
	case kind == "agentevents":
		return append(works("status", "update"), works("", "list")...), true
	}
	return nil, false
}

func sourceRights(write bool, kind string, works rightsOf) ([]right, bool) {
	switch {
	case kind == "presence":
		return nil, true
	case !write:
		return works("", "watch"), true
	case kind == "manifests":
		return works("", "create", "update", "delete"), true
	case kind == "statusresync" || kind == "manifestsstatus" || kind == "sourcebroadcast":
		return works("status", "list"), true
	case kind == "sourceevents":
		return append(works("", "create", "update", "delete"), works("status", "list")...), true
	}
	return nil, false
}

// check returns an error if the user does not have a right.
func (r *Reviews) check(ctx context.Context, who grpc.Identity, groups string, wanted right) error {
	limited, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	allowed, err := r.rights.Ask(limited, question{who.User, groups, wanted}, func(ctx context.Context) (bool, error) {
		return r.review(ctx, who, wanted)
	})
	switch {
	case err != nil:
		return r.failure(ctx, err, reviewOfSAR)
	case !allowed:
		return denied(who.User, wanted)
	}
	return nil
}

func (r *Reviews) review(ctx context.Context, who grpc.Identity, wanted right) (allowed bool, err error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.User, Groups: who.Groups, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: wanted.verb, Group: wanted.group, Resource: wanted.resource, Subresource: wanted.subresource,
			Namespace: wanted.namespace, Name: wanted.name,
		},
	}}
	var answer authorizationv1.SubjectAccessReview
	if err := create(ctx, r.authorization, reviewOfSAR, review, &answer); err != nil {
		return false, err
	}
	return answer.Status.Allowed && !answer.Status.Denied, nil
}

// denied is the error of a missing right, in the words of the API server.
func denied(user string, r right) error {
	const most = 256 // bytes of a name
	resource := schema.GroupResource{Group: r.group, Resource: r.resource}.String()
	if r.subresource != "" {
		resource = r.resource + "/" + r.subresource + "." + r.group
	}
	where := fmt.Sprintf("in the namespace %q", cut.Text(r.namespace, most))
	switch {
	case r.group == groupSource && r.name == "":
		where = "with any name"
	case r.group == groupSource:
		where = fmt.Sprintf("with the name %q", cut.Text(r.name, most))
	case r.namespace == "":
		where = "at the cluster scope"
	}
	return fmt.Errorf("user %q cannot %s resource %q %s", cut.Text(user, most), r.verb, resource, where)
}
