// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spoke

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
)

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
