// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

// definition has the relevant fields of a CustomResourceDefinition.
type definition struct {
	group, kind string
	versions    []string // the served versions
}

// establishPoll is the interval at which a definition is read. An API server needs between 20 ms
// and seconds to serve it.
const establishPoll = 50 * time.Millisecond

func isDefinition(o appcontext.Object) bool {
	return o.Group == "apiextensions.k8s.io" && o.Kind == "CustomResourceDefinition"
}

func readDefinition(content map[string]any) (*definition, error) {
	d := &definition{}
	d.group, _, _ = unstructured.NestedString(content, "spec", "group")
	d.kind, _, _ = unstructured.NestedString(content, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(content, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		if served, _ := version["served"].(bool); served && name != "" {
			d.versions = append(d.versions, name)
		}
	}
	if d.group == "" || d.kind == "" {
		return nil, errors.New("the manifest of the definition has no spec.group or no spec.names.kind")
	}
	return d, nil
}

// established waits until a definition is established, and all its versions are served.
func (c *cluster) established(ctx context.Context, m *manifest) error {
	limited, cancel := context.WithTimeout(ctx, c.options.EstablishTimeout)
	defer cancel()
	var reason string
	err := wait.PollUntilContextCancel(limited, establishPoll, true, func(limited context.Context) (done bool, err error) {
		reason, err = c.look(limited, m)
		return reason == "", err
	})
	switch {
	case ctx.Err() != nil:
		return driver.Ended(ctx.Err())
	case limited.Err() != nil:
		return driver.Fault(connector.ErrRetryable, m.object, "after %s it is not served yet: %s", c.options.EstablishTimeout,
			reason)
	}
	return err
}

// look returns the reason why a definition cannot be used yet, or "".
func (c *cluster) look(ctx context.Context, m *manifest) (reason string, err error) {
	r := newReading(1)
	r.states[0].Object = m.object
	if err := c.getOne(ctx, m.gvk, r, 0); err != nil {
		return "it cannot be read", err
	}
	switch s := r.states[0]; {
	case s.Failed:
		return "", driver.Fault(connector.ErrTerminal, m.object, "it cannot be established: %s", s.Message)
	case !s.Ready:
		return s.Message, nil
	}
	for _, version := range m.crd.versions {
		gvk := schema.GroupVersionKind{Group: m.crd.group, Version: version, Kind: m.crd.kind}
		err := c.call(ctx, m.object, "find its kind", func(ctx context.Context, cl *client) error {
			_, err := c.kinds.find(ctx, cl, gvk, true)
			var other *otherVersionError
			if errors.Is(err, errNotServed) || errors.As(err, &other) {
				reason = fmt.Sprintf("version %s is not served", version)
				return nil
			}
			return err
		})
		if err != nil || reason != "" {
			return reason, err
		}
	}
	return "", nil
}
