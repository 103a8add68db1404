// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

const (
	typeProtobuf = "application/vnd.kubernetes.protobuf"
	typeJSON     = "application/json"

	// partial requests metadata only. Servers without protobuf, such as aggregated servers, answer
	// in JSON, and servers without support for metadata with whole objects.
	partial     = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	partialList = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

	// maxStatus limits the part of an error response that is read, in bytes.
	maxStatus = 64 << 10

	// silence limits pauses before an answer and within the existing objects: proxies may hang.
	silence = 2 * time.Minute
)

// initialSilence limits pauses while a server sends existing objects. A server without support for
// sendInitialEvents never sends the bookmark that ends them.
const initialSilence = 10 * time.Second

// plainFor is the time for which a group version without that bookmark is listed.
const plainFor = 10 * time.Minute

var errNoBookmark = fmt.Errorf("no bookmark after the initial events for %v: listing from now on", initialSilence)

var errSilent = fmt.Errorf("no response from the server for %v", silence)

// newLimit returns a stopped timer that ends a request if the server is silent.
func newLimit(cancel context.CancelCauseFunc) *time.Timer {
	limit := time.AfterFunc(silence, func() { cancel(errSilent) })
	limit.Stop()
	return limit
}

// HTTP opens streams on the server of a rest.Config. client-go's rate limiter does not apply.
type HTTP struct {
	base *url.URL
	pool *pool
	// plain contains the group versions without support for initial events, and until when.
	plain sync.Map
	clock clock.PassiveClock
}

// NewHTTP returns an opener. If client is not nil, it sends all requests.
func NewHTTP(config *rest.Config, client *http.Client, c clock.WithTicker) (*HTTP, error) {
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	if _, err := rest.HTTPClientFor(config); client == nil && err != nil {
		return nil, err // fail here, not at the first watch
	}
	return &HTTP{base: base, pool: newPool(config, client, c), clock: c}, nil
}

// CloseIdle closes connections without streams.
func (h *HTTP) CloseIdle() { h.pool.closeIdle() }

// Close closes the remaining connections after all streams are closed.
func (h *HTTP) Close() { h.pool.close() }

// Open implements [Opener].
func (h *HTTP) Open(ctx context.Context, t Target, resourceVersion string) (Stream, error) {
	if until, plain := h.plain.Load(t.Resource.GroupVersion()); plain && h.clock.Now().Before(until.(time.Time)) {
		return h.listAndWatch(ctx, t)
	}
	s, err := h.watch(ctx, t, url.Values{
		"sendInitialEvents":    {"true"},
		"resourceVersionMatch": {string(metav1.ResourceVersionMatchNotOlderThan)},
		"resourceVersion":      {resourceVersion},
	})
	if lacksWatchList(err) {
		h.plain.Store(t.Resource.GroupVersion(), h.clock.Now().Add(plainFor))
		return h.listAndWatch(ctx, t)
	}
	return s, err
}

// lacksWatchList reports whether a server refused sendInitialEvents.
func lacksWatchList(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "sendInitialEvents" || c.Field == "resourceVersionMatch" // before 1.27
	})
}

func (h *HTTP) watch(ctx context.Context, t Target, query url.Values) (Stream, error) {
	query.Set("watch", "true")
	query.Set("allowWatchBookmarks", "true")
	accept := typeProtobuf + partial + "," + typeJSON + partial + "," + typeJSON
	if t.Whole {
		accept = typeJSON
	}
	ctx, cancel := context.WithCancelCause(ctx)
	limit := newLimit(cancel)
	shard, epoch, resp, err := h.get(ctx, t, query, accept, limit) //nolint:bodyclose // the stream's Close does
	if err != nil {
		limit.Stop()
		cancel(nil)
		return nil, err
	}
	s := &httpStream{ctx: ctx, http: h, shard: shard, epoch: epoch, body: resp.Body, cancel: cancel, limit: limit}
	if query.Has("sendInitialEvents") {
		limit.Stop()
		s.limit = time.AfterFunc(initialSilence, func() {
			h.plain.Store(t.Resource.GroupVersion(), h.clock.Now().Add(plainFor))
			cancel(errNoBookmark)
		})
	} else {
		s.synced()
	}
	if isProtobuf(resp) {
		s.frames = &protobufFrames{body: resp.Body}
	} else {
		s.frames = newJSONFrames(resp.Body, t.Whole)
	}
	return s, nil
}

func isProtobuf(resp *http.Response) bool {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && media == typeProtobuf
}

// get sends a request on a connection with room, and then starts its limit. Without an error, the
// caller closes the body and releases the shard. In any case, it stops the limit.
func (h *HTTP) get(
	ctx context.Context, t Target, query url.Values, accept string, limit *time.Timer,
) (*shard, int, *http.Response, error) {
	u := *h.base
	u.Path = strings.TrimSuffix(u.Path, "/") + path(t.Resource, t.Namespace)
	if t.Name != "" {
		query.Set("fieldSelector", fields.OneTermEqualSelector(metav1.ObjectNameField, t.Name).String())
	}
	if t.Selector != "" {
		query.Set("labelSelector", t.Selector)
	}
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, 0, nil, err
	}
	req.Header.Set("Accept", accept)
	shard, err := h.pool.acquire()
	if err != nil {
		return nil, 0, nil, err
	}
	resp, epoch, err := shard.do(req, limit)
	if err != nil {
		h.pool.release(shard)
		if ctx.Err() != nil {
			return nil, 0, nil, context.Cause(ctx)
		}
		shard.failed(epoch)
		return nil, 0, nil, fmt.Errorf("%w: %w", ErrConnection, err)
	}
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxStatus)) // a partial body is sufficient
		_ = resp.Body.Close()
		h.pool.release(shard)
		return nil, 0, nil, readStatus(resp, t, body)
	}
	return shard, epoch, resp, nil
}

func path(r schema.GroupVersionResource, namespace string) string {
	base := "/api/"
	if r.Group != "" {
		base = "/apis/" + r.Group + "/"
	}
	if namespace != "" {
		namespace = "/namespaces/" + namespace
	}
	return base + r.Version + namespace + "/" + r.Resource
}

type httpStream struct {
	ctx    context.Context
	frames frames
	http   *HTTP
	shard  *shard
	epoch  int
	body   io.ReadCloser
	cancel context.CancelCauseFunc
	limit  *time.Timer // nil after the existing objects
	once   sync.Once
}

// synced stops the limit after the existing objects: later pauses may be long.
func (s *httpStream) synced() {
	s.limit.Stop()
	s.limit = nil
}

// Wait implements [Stream].
func (s *httpStream) Wait() error {
	err := s.frames.wait()
	if err != nil {
		err = s.ended(err)
	}
	return err
}

// Next implements [Stream].
func (s *httpStream) Next() (Event, error) {
	e, err := s.frames.next()
	switch {
	case err != nil:
		err = s.ended(err)
	case s.limit != nil && e.Type == Synced:
		s.synced()
	case s.limit != nil:
		s.limit.Reset(initialSilence)
	}
	return e, err
}

func (s *httpStream) ended(err error) error {
	var status apierrors.APIStatus
	switch {
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case errors.Is(err, io.EOF), errors.As(err, &status):
		return err
	}
	s.shard.failed(s.epoch)
	return fmt.Errorf("%w: %w", ErrConnection, err)
}

// Close implements [Stream].
func (s *httpStream) Close() {
	s.once.Do(func() {
		s.cancel(nil)
		_ = s.body.Close()
		s.http.pool.release(s.shard)
	})
}
