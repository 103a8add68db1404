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

// allows returns an [*ExecutorError] if the agent does not serve works with this executor; nil
// means no executor.
func (o *Options) allows(executor *workv1.ManifestWorkExecutor) error {
	if len(o.Executors) == 0 {
		return nil
	}
	if executor == nil {
		return &ExecutorError{Allowed: o.Executors}
	}
	account, err := accountOf(executor)
	if err != nil {
		return err
	}
	for _, pattern := range o.Executors {
		if ok, err := path.Match(pattern, account); err == nil && ok {
			return nil
		}
	}
	return &ExecutorError{Executor: account, Allowed: o.Executors}
}

// accountOf returns the service account of an executor as namespace/name. It refuses invalid names,
// because a colon in a name would make another user.
func accountOf(executor *workv1.ManifestWorkExecutor) (string, error) {
	const only = workv1.ExecutorSubjectTypeServiceAccount
	if t := executor.Subject.Type; t != only {
		return "", fmt.Errorf("spec.executor.subject.type %q is not supported: write %s", t, only)
	}
	account := executor.Subject.ServiceAccount
	if account == nil || account.Namespace == "" || account.Name == "" {
		return "", errors.New("spec.executor.subject.serviceAccount needs a namespace and a name")
	}
	for _, wrong := range validation.IsDNS1123Label(account.Namespace) {
		return "", fmt.Errorf("invalid spec.executor.subject.serviceAccount.namespace: %.100q: %s",
			account.Namespace, wrong)
	}
	for _, wrong := range validation.IsDNS1123Subdomain(account.Name) {
		return "", fmt.Errorf("invalid spec.executor.subject.serviceAccount.name: %.100q: %s", account.Name, wrong)
	}
	return account.Namespace + "/" + account.Name, nil
}

// groupsOf returns the groups of a service account, given its user name.
func groupsOf(user string) []string {
	namespace := strings.Split(user, ":")[2]
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
}

// userOf returns the user name of the service account of an executor.
func userOf(executor *workv1.ManifestWorkExecutor) (string, error) {
	account, err := accountOf(executor)
	if err != nil {
		return "", err
	}
	return "system:serviceaccount:" + strings.Replace(account, "/", ":", 1), nil
}
