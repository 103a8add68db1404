// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// pageSize is the maximum number of objects in one page of a list.
	pageSize = 500
	// maxList limits one page, in bytes.
	maxList = 256 << 20
)

func (h *HTTP) listAndWatch(ctx context.Context, t Target) (Stream, error) {
	events, version, err := h.list(ctx, t)
	if err != nil {
		return nil, err
	}
	watch, err := h.watch(ctx, t, url.Values{"resourceVersion": {version}})
	if err != nil {
		return nil, err
	}
	return &listed{Stream: watch, events: append(events, Event{Type: Synced, ResourceVersion: version})}, nil
}

// listed is a watch that begins with the events of a list.
type listed struct {
	Stream
	events []Event
}

// Wait implements [Stream].
func (l *listed) Wait() error {
	if len(l.events) > 0 {
		return nil
	}
	return l.Stream.Wait()
}

// Next implements [Stream].
func (l *listed) Next() (Event, error) {
	if len(l.events) == 0 {
		return l.Stream.Next()
	}
	e := l.events[0]
	l.events[0] = Event{}
	if l.events = l.events[1:]; len(l.events) == 0 {
		l.events = nil
	}
	return e, nil
}

// list returns the existing objects, page by page, and their version.
func (h *HTTP) list(ctx context.Context, t Target) (events []Event, version string, err error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if t.Name != "" {
		query.Del("limit") // at most one object exists
	}
	for {
		page, err := h.page(ctx, t, query)
		if err != nil {
			return nil, "", err
		}
		events, version = append(events, page.events...), page.ResourceVersion
		if page.Continue == "" {
			return events, version, nil
		}
		query.Set("continue", page.Continue)
	}
}

type page struct {
	metav1.ListMeta
	events []Event
}

func (h *HTTP) page(ctx context.Context, t Target, query url.Values) (*page, error) {
	accept := typeProtobuf + partialList + "," + typeJSON + partialList + "," + typeJSON
	if t.Whole {
		accept = typeJSON
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := newLimit(cancel)
	defer limit.Stop()
	shard, epoch, resp, err := h.get(ctx, t, query, accept, limit)
	if err != nil {
		return nil, err
	}
	defer h.pool.release(shard)
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxList+1))
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		shard.failed(epoch)
		return nil, fmt.Errorf("%w: %w", ErrConnection, err)
	case len(body) > maxList:
		return nil, fmt.Errorf("list has more than %d bytes", maxList)
	}
	return readPage(resp, t, body)
}

func readPage(resp *http.Response, t Target, body []byte) (*page, error) {
	p := &page{}
	var objects []metav1.Object
	if t.Whole {
		var list unstructured.UnstructuredList
		if err := list.UnmarshalJSON(body); err != nil {
			return nil, fmt.Errorf("decode list: %w", err)
		}
		p.ResourceVersion, p.Continue = list.GetResourceVersion(), list.GetContinue()
		objects = pointers(list.Items)
	} else {
		list, err := readMetadataList(resp, body)
		if err != nil {
			return nil, err
		}
		p.ListMeta, objects = list.ListMeta, pointers(list.Items)
	}
	p.events = make([]Event, len(objects))
	for i, obj := range objects {
		e, err := metadataEvent(string(watch.Added), obj)
		if err != nil {
			return nil, err
		}
		e.Object, _ = obj.(*unstructured.Unstructured)
		p.events[i] = e
	}
	return p, nil
}

func readMetadataList(resp *http.Response, body []byte) (*metav1.PartialObjectMetadataList, error) {
	var list metav1.PartialObjectMetadataList
	if isProtobuf(resp) {
		_, raw, err := unwrapProtobuf(body)
		if err != nil {
			return nil, err
		}
		if err := list.Unmarshal(raw); err != nil {
			return nil, fmt.Errorf("decode list: %w", err)
		}
		return &list, nil
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("decode list: %w", err)
	}
	return &list, nil
}

// Expired reports whether a resource version is too old, or newer than the state of the server. A
// stream must then begin without a version.
func Expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.IsTimeout(err) && apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// Count returns the number of objects of a Target without Name and Selector. It requests a page of
// one object. It returns -1 if the server does not return the number without sending all objects.
// Its errors are those of Open.
func (h *HTTP) Count(ctx context.Context, t Target) (int64, error) {
	page, err := h.page(ctx, t, url.Values{"limit": {"1"}})
	switch {
	case err != nil:
		return 0, err
	case page.RemainingItemCount != nil:
		return int64(len(page.events)) + *page.RemainingItemCount, nil
	case page.Continue == "":
		return int64(len(page.events)), nil
	}
	return -1, nil
}
