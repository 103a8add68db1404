// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

const (
	// listFrom is for how many objects of a kind in a namespace one list takes the place of single requests.
	listFrom = 10
	pageSize = 500
)

// pair is where a list or a watch looks.
type pair struct {
	gvk       schema.GroupVersionKind
	namespace string
}

// Get asks for the objects: with one list where it is for many of one kind in one namespace, else for each.
func (c *cluster) Get(ctx context.Context, batch connector.Batch) ([]connector.State, error) {
	if err := ctx.Err(); err != nil {
		return nil, endedError(err)
	}
	states := make([]connector.State, len(batch.Resources))
	groups := map[pair][]int{}
	for i := range batch.Resources {
		r := &batch.Resources[i]
		states[i].Object = r.Object
		p := pair{c.kindOf(r), r.Object.Namespace}
		groups[p] = append(groups[p], i)
	}
	group, limited := errgroup.WithContext(ctx)
	group.SetLimit(c.options.Concurrency)
	for p, places := range groups {
		if len(places) >= listFrom {
			var err error
			if places, err = c.list(ctx, p, places, states); err != nil {
				return nil, err
			}
		}
		for _, i := range places {
			group.Go(func() error { return c.getOne(limited, p.gvk, &states[i]) })
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return states, nil
}

// getOne fills in the state of an object.
func (c *cluster) getOne(ctx context.Context, gvk schema.GroupVersionKind, s *connector.State) error {
	o := s.Object
	var body []byte
	err := c.call(ctx, o, "get", func(ctx context.Context, cl *client) error {
		err := c.retryFresh(func(fresh bool) error {
			k, err := c.place(ctx, cl, gvk, o, fresh)
			if err == nil {
				body, err = raw(cl.rest.Get().AbsPath(k.path(o.Namespace, o.Name)...).MaxRetries(0).Do(ctx))
			}
			return err
		})
		if absent(err) || apierrors.IsNotFound(err) && !pathGone(err) {
			body = nil
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	var u *unstructured.Unstructured
	if body != nil {
		u = &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(body); err != nil || u.GetKind() != o.Kind || u.GetName() != o.Name {
			return fault(connector.ErrRetryable, o, "get: the answer is no object")
		}
	}
	c.tell(gvk, s, u)
	return nil
}

// tell fills in the state of an object, which is nil where there is none.
func (c *cluster) tell(gvk schema.GroupVersionKind, s *connector.State, u *unstructured.Unstructured) {
	if u == nil {
		*s = connector.State{Object: s.Object}
	} else {
		*s = stateOf(s.Object, u)
	}
	c.interest.seen(gvk, s, u != nil && u.GetDeletionTimestamp() != nil)
}

// list fills in the states of what is in one page of a list, and returns the places of what is left.
func (c *cluster) list(ctx context.Context, p pair, places []int, states []connector.State) (left []int, err error) {
	var found unstructured.UnstructuredList
	complete := false
	kind := appcontext.Object{Group: p.gvk.Group, Kind: p.gvk.Kind, Namespace: p.namespace} // one odd name says nothing of the others
	err = c.call(ctx, kind, "list", func(ctx context.Context, cl *client) error {
		var body []byte
		err := c.retryFresh(func(fresh bool) error {
			k, err := c.place(ctx, cl, p.gvk, kind, fresh)
			if err == nil {
				body, err = raw(cl.rest.Get().AbsPath(k.path(p.namespace, "")...).MaxRetries(0).Param("limit", strconv.Itoa(pageSize)).Do(ctx))
			}
			return err
		})
		var large *http.MaxBytesError
		switch {
		case absent(err):
			complete = true
			return nil
		case isForbidden(err) || errors.As(err, &large) || apierrors.IsMethodNotSupported(err):
			return nil // one by one it may work
		case err != nil:
			return err
		}
		if err := found.UnmarshalJSON(body); err != nil || !strings.HasSuffix(found.GetKind(), "List") {
			return nil // nor is a list that cannot be read a reason to fail; what is none would say that all objects are gone
		}
		complete = found.GetContinue() == ""
		return nil
	})
	if err != nil {
		return nil, err
	}
	byName := make(map[string]*unstructured.Unstructured, len(found.Items))
	for i := range found.Items {
		byName[found.Items[i].GetName()] = &found.Items[i]
	}
	for _, i := range places {
		u := byName[states[i].Name]
		if u == nil && !complete {
			left = append(left, i)
			continue
		}
		c.tell(p.gvk, &states[i], u)
	}
	return left, nil
}

// raw returns the body of an answer. The error of Result.Raw is not the server's, but client-go's summary of it.
func raw(result rest.Result) ([]byte, error) {
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}
