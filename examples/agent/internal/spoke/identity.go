// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spoke

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
)

// identity is the user of the requests for the objects of a work: the agent, or an executor.
type identity struct {
	executor  *appliedwork.Executor // nil for the agent
	client    dynamic.Interface
	metadata  metadata.Interface
	tracker   *appliedwork.Tracker
	applier   *appliedwork.Applier
	pruner    *appliedwork.Pruner
	collector *appliedwork.Collector
}

// identity returns the identity for an executor, or an [*ExecutorError]. The most recently used
// clients are cached; all share connections.
func (c *Cluster) identity(executor *workv1.ManifestWorkExecutor) (*identity, error) {
	account, err := c.options.accountOf(executor)
	if err != nil {
		return nil, err
	}
	if account == nil {
		return c.agent, nil
	}
	user := userOf(account)
	if known, ok := c.executors.Get(user.User); ok {
		return known.(*identity), nil
	}
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user.User}
	id, err := c.newIdentity(config, user)
	if err != nil {
		return nil, err
	}
	c.executors.Add(user.User, id)
	return id, nil
}

func (c *Cluster) newIdentity(config *rest.Config, executor *appliedwork.Executor) (*identity, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	id := &identity{executor: executor, client: client, metadata: objects}
	options := appliedwork.Options{
		Client: client, Metadata: objects, Index: c.index, Discovery: c.discovery, Reviews: c.reviews,
	}
	if executor != nil {
		// The agent accesses AppliedWorks for the executor, which needs no right to do so. For
		// AppliedWorks among its manifests it uses its own rights.
		options.Inventory, options.InventoryMetadata = c.agent.client, c.agent.metadata
	}
	if id.tracker, err = appliedwork.NewTracker(options); err != nil {
		return nil, err
	}
	id.applier, id.pruner = appliedwork.NewApplier(id.tracker), appliedwork.NewPruner(id.tracker)
	id.collector = appliedwork.NewCollector(id.tracker)
	return id, nil
}

// explain describes an error in the terms of a work or of the agent.
func (id *identity) explain(err error) error {
	var adoption *appliedwork.AdoptionError
	var conflict *appliedwork.OwnershipConflictError
	switch {
	case errors.As(err, &adoption):
		return &explainedError{adoption, explainAdoption(adoption)}
	case errors.As(err, &conflict):
		return &explainedError{conflict, fmt.Sprintf("%s: other managers own fields of the manifest (%s): remove the "+
			"fields, or set updateStrategy.serverSideApply.force in its manifestConfigs",
			conflict.Key, strings.Join(conflict.Fields, "; "))}
	case id.executor != nil && apierrors.IsForbidden(err):
		return fmt.Errorf("the executor %s is not allowed to: %w: grant it get, list, create, patch and delete, or "+
			"change spec.executor", id.executor.User, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the agent is not allowed to: %w: grant it the right, for example with agent install --role", err)
	case apierrors.IsInvalid(err):
		text := withoutValues(err.Error())
		if strings.Contains(text, "field is immutable") {
			text += ": give the object another name, or delete it on the cluster"
		}
		return &explainedError{err, text}
	}
	return err
}

// withoutValues returns the text of an error without the values of objects and lists. The value of a
// field that cannot change may be a complete Pod, and the cause would follow after it.
func withoutValues(text string) string {
	const value = "Invalid value: {"
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, value)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString(value + "…}: ")
		_, text, _ = strings.Cut(rest, "}: ")
	}
}

// explainedError is an error with another text.
type explainedError struct {
	error
	text string
}

func (e *explainedError) Error() string { return e.text }
func (e *explainedError) Unwrap() error { return e.error }

func explainAdoption(refused *appliedwork.AdoptionError) string {
	if len(refused.Owners) == 0 {
		return fmt.Sprintf("%s exists and is not owned by this work: delete it, or start the agent with --adopt unowned",
			refused.Key)
	}
	names := make([]string, len(refused.Owners))
	for i, o := range refused.Owners {
		names[i] = o.Kind + " " + o.Name
	}
	return fmt.Sprintf("%s exists and is owned by %s: delete it, or start the agent with --adopt always",
		refused.Key, strings.Join(names, ", "))
}

// AnyExecutor is the pattern for [Options.Executors] that every service account matches.
const AnyExecutor = "*/*"

// ExecutorError reports that the agent does not serve a work because of its executor. The agent
// sends no request for the objects of the work.
type ExecutorError struct {
	// Executor is the service account that the work names, as namespace/name; empty without one.
	Executor string
	// Allowed are the patterns of [Options.Executors].
	Allowed []string
}

// Error returns the executor and the remedy.
func (e *ExecutorError) Error() string {
	allowed := ""
	if !slices.Contains(e.Allowed, AnyExecutor) {
		allowed = " that matches " + strings.Join(e.Allowed, " or ")
	}
	if e.Executor == "" {
		return "the agent requires an executor, and the work has no executor: " +
			"set spec.executor to a service account" + allowed
	}
	return fmt.Sprintf("the agent does not allow the executor %s: set spec.executor to a service account%s, "+
		"or start the agent with --executor %s", e.Executor, allowed, e.Executor)
}

// CheckExecutors returns an error for the first pattern that is invalid for [Options.Executors].
func CheckExecutors(patterns []string) error {
	for _, pattern := range patterns {
		namespace, name, ok := strings.Cut(pattern, "/")
		_, err := path.Match(pattern, "")
		if !ok || namespace == "" || name == "" || strings.Contains(name, "/") || err != nil {
			return fmt.Errorf("%q: must be namespace/name of a service account, where * matches any characters",
				pattern)
		}
	}
	return nil
}

// accountOf returns the service account of the executor of a work; nil without one. It returns an
// [*ExecutorError] if the agent does not serve works with this executor.
func (o *Options) accountOf(executor *workv1.ManifestWorkExecutor) (*workv1.ManifestWorkSubjectServiceAccount, error) {
	switch {
	case executor == nil && len(o.Executors) > 0:
		return nil, &ExecutorError{Allowed: o.Executors}
	case executor == nil:
		return nil, nil
	}
	account, err := accountOf(executor)
	if err != nil || len(o.Executors) == 0 {
		return account, err
	}
	name := account.Namespace + "/" + account.Name
	for _, pattern := range o.Executors {
		if ok, err := path.Match(pattern, name); err == nil && ok {
			return account, nil
		}
	}
	return nil, &ExecutorError{Executor: name, Allowed: o.Executors}
}

// accountOf returns the service account of an executor. It refuses invalid names, because a colon
// in a name would make another user.
func accountOf(executor *workv1.ManifestWorkExecutor) (*workv1.ManifestWorkSubjectServiceAccount, error) {
	const only = workv1.ExecutorSubjectTypeServiceAccount
	if t := executor.Subject.Type; t != only {
		return nil, fmt.Errorf("spec.executor.subject.type %q is not supported: write %s", t, only)
	}
	account := executor.Subject.ServiceAccount
	if account == nil || account.Namespace == "" || account.Name == "" {
		return nil, errors.New("spec.executor.subject.serviceAccount needs a namespace and a name")
	}
	for _, wrong := range validation.IsDNS1123Label(account.Namespace) {
		return nil, fmt.Errorf("invalid spec.executor.subject.serviceAccount.namespace: %.100q: %s",
			account.Namespace, wrong)
	}
	for _, wrong := range validation.IsDNS1123Subdomain(account.Name) {
		return nil, fmt.Errorf("invalid spec.executor.subject.serviceAccount.name: %.100q: %s", account.Name, wrong)
	}
	return account, nil
}

// userOf returns a service account as a user.
func userOf(account *workv1.ManifestWorkSubjectServiceAccount) *appliedwork.Executor {
	return &appliedwork.Executor{
		User:   "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
	}
}
