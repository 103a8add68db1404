// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

const (
	// listFrom is the number of objects of a pair from which they are listed.
	listFrom = 10
	// listRatio limits the other objects in a list for each requested object.
	listRatio = 50
	pageSize  = 500
)

// pair is the scope of a list or a watch.
type pair struct {
	gvk       schema.GroupVersionKind
	namespace string
}

// Get reads the objects: with a list from listFrom on, and otherwise one by one.
func (c *cluster) Get(ctx context.Context, batch connector.Batch) ([]connector.State, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.Ended(err)
	}
	r := newReading(len(batch.Resources))
	states := r.states
	groups := map[pair][]int{}
	for i := range batch.Resources {
		resource := &batch.Resources[i]
		states[i].Object = resource.Object
		p := pair{c.kindOf(resource), resource.Object.Namespace}
		groups[p] = append(groups[p], i)
		if batch.WatchFor > 0 {
			c.interest.follow(p.gvk, resource.Object, batch.WatchFor)
		}
	}
	single := make([]pair, len(states)) // of objects that no list has returned; by index
	var singles []int
	var mu sync.Mutex
	lists, limited := errgroup.WithContext(ctx)
	lists.SetLimit(c.options.Concurrency)
	for p, places := range groups {
		lists.Go(func() error {
			if len(places) >= listFrom {
				var err error
				if places, err = c.list(limited, p, places, r, batch.Done); err != nil {
					return err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for _, i := range places {
				single[i] = p
			}
			singles = append(singles, places...)
			return nil
		})
	}
	if err := lists.Wait(); err != nil {
		return nil, err
	}
	if err := c.parallel(singles, func(i int) error {
		err := c.getOne(ctx, single[i].gvk, r, i)
		batch.Done(i)
		return err
	}); err != nil {
		return nil, err
	}
	if err := c.interpret(ctx, r); err != nil {
		return nil, err
	}
	return states, nil
}

// reading has the results of a Get: the states, and the objects for the interpreter.
type reading struct {
	states []connector.State
	found  []*found
}

func newReading(n int) *reading {
	return &reading{states: make([]connector.State, n), found: make([]*found, n)}
}

func (c *cluster) interpret(ctx context.Context, r *reading) error {
	ask := slices.DeleteFunc(r.found, func(f *found) bool { return f == nil })
	if len(ask) == 0 {
		return nil
	}
	c.questions.judge(ctx, ask)
	if err := ctx.Err(); err != nil {
		return driver.Ended(err)
	}
	for _, f := range ask {
		c.interest.seen(f.gvk, f.state, false)
	}
	return nil
}

func (c *cluster) getOne(ctx context.Context, gvk schema.GroupVersionKind, r *reading, i int) error {
	u, err := c.getObject(ctx, gvk, r.states[i].Object)
	if err != nil {
		return err
	}
	c.tell(gvk, r, i, u)
	return nil
}

// getObject reads an object. It returns nil if the object does not exist.
func (c *cluster) getObject(
	ctx context.Context, gvk schema.GroupVersionKind, o appcontext.Object,
) (*unstructured.Unstructured, error) {
	var body []byte
	err := c.call(ctx, o, "get", func(ctx context.Context, cl *client) error {
		err := c.served(ctx, cl, gvk, o, func(k kind) (err error) {
			body, err = raw(cl.rest.Get().AbsPath(k.path(o.Namespace, o.Name)...).MaxRetries(0).Do(ctx))
			return err
		})
		if absent(err) || apierrors.IsNotFound(err) && !pathGone(err) {
			body = nil
			return nil
		}
		return err
	})
	if err != nil || body == nil {
		return nil, err
	}
	return decode(body, o)
}

func decode(body []byte, o appcontext.Object) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(body); err != nil || u.GetKind() != o.Kind || u.GetName() != o.Name {
		return nil, driver.Fault(connector.ErrRetryable, o, "get: the answer is not an object")
	}
	return u, nil
}

// tell fills in the state of an object. u is nil if the object does not exist.
func (c *cluster) tell(gvk schema.GroupVersionKind, r *reading, i int, u *unstructured.Unstructured) {
	s := &r.states[i]
	if u == nil {
		*s = connector.State{Object: s.Object}
	} else {
		*s = stateOf(s.Object, u)
	}
	if u != nil && c.options.Interpreter != nil && mayInterpret(u) {
		r.found[i] = &found{gvk, &unstructured.Unstructured{Object: u.Object}, s} // without the list that contains it
		return
	}
	c.interest.seen(gvk, s, u != nil && u.GetDeletionTimestamp() != nil)
}

// list fills in the states of objects from a list. It returns the indexes of other objects.
func (c *cluster) list(ctx context.Context, p pair, places []int, r *reading, done func(int)) (left []int, err error) {
	missing := make(map[string]int, len(places))
	for _, i := range places {
		missing[r.states[i].Name] = i
	}
	for token := ""; len(missing) > 0; {
		page, err := c.page(ctx, p, token)
		if err != nil {
			return nil, err
		}
		if page == nil {
			break
		}
		for i := range page.Items {
			u := &page.Items[i]
			if place, ok := missing[u.GetName()]; ok {
				delete(missing, u.GetName())
				c.tell(p.gvk, r, place, u)
				done(place)
			}
		}
		if token = page.GetContinue(); token == "" {
			for _, place := range missing {
				c.tell(p.gvk, r, place, nil)
				done(place)
			}
			return nil, nil
		}
		if rest := page.GetRemainingItemCount(); rest == nil || *rest > int64(listRatio*len(missing)) {
			break
		}
	}
	return slices.Collect(maps.Values(missing)), nil
}

// page returns a page of a list, or nil if the objects must be read one by one.
func (c *cluster) page(ctx context.Context, p pair, token string) (*unstructured.UnstructuredList, error) {
	var page *unstructured.UnstructuredList
	// without a name: an invalid name must not affect others
	of := appcontext.Object{Group: p.gvk.Group, Kind: p.gvk.Kind, Namespace: p.namespace}
	err := c.call(ctx, of, "list", func(ctx context.Context, cl *client) error {
		var body []byte
		err := c.served(ctx, cl, p.gvk, of, func(k kind) (err error) {
			request := cl.rest.Get().AbsPath(k.path(p.namespace, "")...).MaxRetries(0).Param("limit", strconv.Itoa(pageSize))
			if token != "" {
				request = request.Param("continue", token)
			}
			body, err = raw(request.Do(ctx))
			return err
		})
		var large *http.MaxBytesError
		switch {
		case absent(err):
			page = &unstructured.UnstructuredList{}
			return nil
		case apierrors.IsForbidden(err) || errors.As(err, &large) || apierrors.IsMethodNotSupported(err) ||
			apierrors.IsResourceExpired(err):
			return nil
		case err != nil:
			return err
		}
		// Without the check of its kind, an answer of another kind would mean that all objects are
		// gone.
		found := &unstructured.UnstructuredList{}
		if err := found.UnmarshalJSON(body); err == nil && strings.HasSuffix(found.GetKind(), "List") {
			page = found
		}
		return nil
	})
	return page, err
}

// raw returns the body of an answer. The error of Result.Raw would be client-go's summary.
func raw(result rest.Result) ([]byte, error) {
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}
