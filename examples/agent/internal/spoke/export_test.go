// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spoke

import (
	"context"
	"time"

	"k8s.io/client-go/dynamic"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// UserOf returns the user of an executor.
func UserOf(executor *workv1.ManifestWorkExecutor) (string, error) {
	account, err := accountOf(executor)
	if err != nil {
		return "", err
	}
	return userOf(account).User, nil
}

// Policies returns the policies of a delete option, with read-only objects.
func Policies(option *workv1.DeleteOption, readOnly ...appliedwork.Key) (appliedwork.Policies, error) {
	s := settings{DeleteOption: option, readOnly: readOnly}
	return s.policies()
}

// ClientsOf returns the clients of an executor: the client for objects, and the tracker for
// inventories.
func (c *Cluster) ClientsOf(executor *workv1.ManifestWorkExecutor) (dynamic.Interface, *appliedwork.Tracker, error) {
	id, err := c.identity(executor)
	if err != nil {
		return nil, nil, err
	}
	return id.client, id.tracker, nil
}

// IdentityOf returns the identity that makes the requests for an executor.
func (c *Cluster) IdentityOf(executor *workv1.ManifestWorkExecutor) (any, error) {
	return c.identity(executor)
}

// Explain exports explain for tests.
func Explain(err error) error { return (&identity{}).explain(err) }

// Mine returns an error if an AppliedWork belongs to another hub.
func (c *Cluster) Mine(record *v1alpha1.AppliedWork) error { return c.mine(record) }

// RecordAttempt records an attempt as Apply does.
func (c *Cluster) RecordAttempt(ctx context.Context, w *workv1.ManifestWork) error {
	c.surveyed = true
	_, err := c.record(ctx, w, settings{Work: w.UID})
	return err
}

// WithoutValues is withoutValues.
var WithoutValues = withoutValues

// Elapse simulates that time has passed for postponed works.
func (c *Cluster) Elapse(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.attempts {
		a.notBefore = a.notBefore.Add(-d)
	}
}
