// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Request describes a request of a client.
type Request struct {
	Verb      string // discovery, get, list or watch
	Path      string
	Accept    string
	Kind      schema.GroupVersionKind
	Namespace string
	Name      string // of the path or of a field selector
	Selector  string
	Version   string
	Initial   bool // a watch with initial events
}

// Ending is how a stream ends.
type Ending int

const (
	// None does not end the stream.
	None Ending = iota
	// Cut breaks the connection.
	Cut
	// End ends the response.
	End
	// Expired sends a status 410.
	Expired
	// Silence sends no more events until the client disconnects.
	Silence
)

// Fault describes the faults of a request, which may be combined.
type Fault struct {
	Delay      time.Duration
	Hang       bool // until the client disconnects
	Abort      bool // breaks the connection before the response
	Status     int
	RetryAfter int // seconds
	// After is the number of events that a stream sends before its Ending. Duplicate sends each
	// event twice.
	After     int
	Ending    Ending
	Duplicate bool
	// Lag is the delay of events on a stream.
	Lag time.Duration
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, ok := s.parse(r)
	s.mu.Lock()
	s.asked = append(s.asked, q)
	hook := s.hook
	switch q.Verb {
	case "discovery":
		s.counts.Discoveries++
	case "get":
		s.counts.Gets++
	case "list":
		s.counts.Lists++
	case "watch":
		s.counts.Watches++
	}
	s.mu.Unlock()
	var f Fault
	if hook != nil {
		f = hook(q)
	}
	if !f.pass(w, r) {
		return
	}
	switch {
	case !ok:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, nil)
	case q.Verb == "discovery":
		s.discover(w, q.Kind.GroupVersion())
	case q.Verb == "get":
		s.get(w, q)
	case q.Verb == "list":
		s.page(w, r, q)
	default:
		s.watch(w, r, q, f)
	}
}

// pass applies the faults before the response, and reports whether the request continues.
func (f Fault) pass(w http.ResponseWriter, r *http.Request) bool {
	if !sleep(r, f.Delay) {
		return false
	}
	switch {
	case f.Hang:
		<-r.Context().Done()
		return false
	case f.Abort:
		panic(http.ErrAbortHandler)
	case f.Status != 0:
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		reasons := map[int]metav1.StatusReason{
			401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound,
			410: metav1.StatusReasonExpired, 429: metav1.StatusReasonTooManyRequests,
			500: metav1.StatusReasonInternalError, 503: metav1.StatusReasonServiceUnavailable,
		}
		details := &metav1.StatusDetails{RetryAfterSeconds: int32(f.RetryAfter)} //nolint:gosec // seconds
		refuse(w, f.Status, reasons[f.Status], details)
		return false
	}
	return true
}

func sleep(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

func (s *Server) parse(r *http.Request) (Request, bool) {
	query := r.URL.Query()
	q := Request{
		Verb: "list", Path: r.URL.Path, Accept: r.Header.Get("Accept"),
		Selector: query.Get("labelSelector"), Version: query.Get("resourceVersion"),
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 1:
		q.Kind.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 2:
		q.Kind.Group, q.Kind.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return q, false
	}
	if len(parts) == 0 {
		q.Verb = "discovery"
		return q, true
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		q.Namespace, parts = parts[1], parts[2:]
	}
	if name, ok := strings.CutPrefix(query.Get("fieldSelector"), "metadata.name="); ok {
		q.Name = name
	}
	if query.Get("watch") == "true" {
		q.Verb, q.Initial = "watch", query.Get("sendInitialEvents") == "true"
	}
	if len(parts) == 2 {
		q.Verb, q.Name = "get", parts[1]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for gvk, k := range s.kinds {
		if gvk.GroupVersion() == q.Kind.GroupVersion() && k.resource == parts[0] &&
			(k.namespaced || q.Namespace == "") && len(parts) < 3 {
			q.Kind = gvk
			return q, true
		}
	}
	return q, false
}

func (s *Server) discover(w http.ResponseWriter, gv schema.GroupVersion) {
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(),
	}
	s.mu.Lock()
	for gvk, k := range s.kinds {
		if gvk.GroupVersion() == gv {
			verbs := k.verbs
			if verbs == nil {
				verbs = []string{"get", "list", "watch"}
			}
			list.APIResources = append(list.APIResources,
				metav1.APIResource{Name: k.resource, Kind: gvk.Kind, Namespaced: k.namespaced, Verbs: verbs})
		}
	}
	s.mu.Unlock()
	if len(list.APIResources) == 0 {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, nil)
		return
	}
	answer(w, http.StatusOK, list)
}

func (s *Server) get(w http.ResponseWriter, q Request) {
	if o := s.Get(q.Kind, q.Namespace, q.Name); o != nil {
		answer(w, http.StatusOK, q.shape(o).Object)
		return
	}
	refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, nil)
}

// page answers with one page of a list. All pages have the version of the first page.
func (s *Server) page(w http.ResponseWriter, r *http.Request, q Request) {
	f, err := q.filter()
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, nil)
		return
	}
	s.mu.Lock()
	version, compacted := s.version, s.compacted
	s.mu.Unlock()
	query, skip := r.URL.Query(), 0
	limit, _ := strconv.Atoi(query.Get("limit"))
	if s.PageSize > 0 && limit > s.PageSize {
		limit = s.PageSize
	}
	if token := query.Get("continue"); token != "" {
		if _, err := fmt.Sscanf(token, "%d.%d", &version, &skip); err != nil || version < compacted {
			refuse(w, http.StatusGone, metav1.StatusReasonExpired, nil)
			return
		}
	}
	s.mu.Lock()
	all := s.listAt(q.Kind, f, version)
	s.mu.Unlock()
	all = all[min(skip, len(all)):]
	meta := map[string]any{"resourceVersion": strconv.FormatInt(version, 10)}
	if limit > 0 && len(all) > limit {
		if !s.Plain && q.Selector == "" && q.Name == "" { // old servers do not return the count
			meta["remainingItemCount"] = len(all) - limit
		}
		meta["continue"] = fmt.Sprintf("%d.%d", version, skip+limit)
		all = all[:limit]
	}
	items := make([]any, 0, len(all))
	for _, o := range all {
		items = append(items, q.shape(o).Object)
	}
	list := map[string]any{
		"kind": q.Kind.Kind + "List", "apiVersion": q.Kind.GroupVersion().String(), "metadata": meta, "items": items,
	}
	if q.partial() {
		list["kind"], list["apiVersion"] = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	answer(w, http.StatusOK, list)
}

func (q Request) partial() bool { return strings.Contains(q.Accept, "as=PartialObjectMetadata") }

func (q Request) shape(o *unstructured.Unstructured) *unstructured.Unstructured {
	if !q.partial() {
		return o
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o.Object["metadata"],
	}}
}

type filter struct {
	namespace, name string
	selector        labels.Selector
}

func (q Request) filter() (filter, error) {
	selector, err := labels.Parse(q.Selector)
	return filter{q.Namespace, q.Name, selector}, err
}

func (f filter) matches(o *unstructured.Unstructured) bool {
	return o != nil && (f.namespace == "" || f.namespace == o.GetNamespace()) && (f.name == "" || f.name == o.GetName()) &&
		(f.selector == nil || f.selector.Matches(labels.Set(o.GetLabels())))
}

func compareNames(a, b *unstructured.Unstructured) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, details *metav1.StatusDetails) {
	answer(w, code, status(code, reason, details))
}

func status(code int, reason metav1.StatusReason, details *metav1.StatusDetails) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: "fake: " + string(reason), Details: details, //nolint:gosec // HTTP's
	}
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}
