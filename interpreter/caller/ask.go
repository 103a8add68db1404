// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spokewire/sdk-go/interpreter"
)

func (c *Caller) ask() interpreter.Ask { return interpreter.Ask{Interpreter: c} }

// Replicas returns the replicas that an object declares, and the requirements of each, which may be
// nil. The errors of this method and of the other operations are those of [Caller.Interpret].
func (c *Caller) Replicas(
	ctx context.Context, object *unstructured.Unstructured,
) (int32, *interpreter.ReplicaRequirements, error) {
	return c.ask().Replicas(ctx, object)
}

// Components returns the parts of an object with several pod templates.
func (c *Caller) Components(
	ctx context.Context, object *unstructured.Unstructured,
) ([]interpreter.Component, error) {
	return c.ask().Components(ctx, object)
}

// Revise returns the object with another number of replicas.
func (c *Caller) Revise(
	ctx context.Context, object *unstructured.Unstructured, replicas int32,
) (*unstructured.Unstructured, error) {
	return c.ask().Revise(ctx, object, replicas)
}

// Retain returns the desired object with the fields that controllers of the cluster have set in the observed one.
func (c *Caller) Retain(
	ctx context.Context, desired, observed *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	return c.ask().Retain(ctx, desired, observed)
}

// AggregateStatus returns the object with a status that combines those of the clusters.
func (c *Caller) AggregateStatus(
	ctx context.Context, object *unstructured.Unstructured, statuses []interpreter.AggregatedStatusItem,
) (*unstructured.Unstructured, error) {
	return c.ask().AggregateStatus(ctx, object, statuses)
}

// Dependencies returns the objects that must be sent to each cluster of the object.
func (c *Caller) Dependencies(
	ctx context.Context, object *unstructured.Unstructured,
) ([]interpreter.DependentObjectReference, error) {
	return c.ask().Dependencies(ctx, object)
}

// Status returns the status of an object.
func (c *Caller) Status(ctx context.Context, object *unstructured.Unstructured) (*runtime.RawExtension, error) {
	return c.ask().Status(ctx, object)
}

// Health reports whether an object is healthy.
func (c *Caller) Health(ctx context.Context, object *unstructured.Unstructured) (bool, error) {
	return c.ask().Health(ctx, object)
}

// Prune returns the object without the parts that must not be sent to a cluster.
func (c *Caller) Prune(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return c.ask().Prune(ctx, object)
}
