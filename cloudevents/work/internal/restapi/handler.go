// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package restapi serves the Kubernetes API of ManifestWorks over HTTP. The handlers are those of
// k8s.io/apiserver, configured as for the CRD; a clientset of a source or an agent is their storage.
package restapi

import (
	"context"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
)

const (
	groupPath   = "/apis/" + workv1.GroupName
	versionPath = groupPath + "/v1"
)

// patchTypes are the types of patches for custom resources.
var patchTypes = []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)}

// Options are the parts of an API server that the handler calls.
type Options struct {
	// Authorizer permits what a request does besides its own verb. Nil permits everything.
	Authorizer authorizer.UnconditionalAuthorizer
	// Admission checks and changes objects. It may be nil.
	Admission admission.Interface
	// ReadOnly refuses all writes with MethodNotSupported.
	ReadOnly bool
}

// New returns a handler for the API of the works of a clientset, which must be from package
// clientset. It serves discovery, OpenAPI, and all verbs that the clientset supports.
func New(c workclientset.Interface, o Options) (http.Handler, error) {
	checks := o.Authorizer != nil || o.Admission != nil
	if o.Authorizer == nil {
		o.Authorizer = allow{}
	}
	works := newStorage(c, "", checks)
	scope, err := newScope(works, o.Authorizer)
	if err != nil {
		return nil, err
	}
	status := newStorage(c, clientset.StatusPart, checks)
	statusScope, err := newScope(status, o.Authorizer)
	if err != nil {
		return nil, err
	}
	info := &request.RequestInfoFactory{
		APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
	}
	mux := mux.NewPathRecorderMux("manifestworks") // unlike http.ServeMux, it never redirects
	addDiscovery(mux, c, o)
	mux.NotFoundHandler(&resources{works, status, scope, statusScope, o})
	deadline := filters.WithRequestDeadline(withWarnings(mux), nil, nil, longRunning, codecs, maxDuration)
	alone := filters.WithRequestInfo(filters.WithCacheControl(deadline), info)
	alone = filters.WithRequestReceivedTimestamp(alone)
	return whileRunning(c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := request.RequestInfoFrom(r.Context()); ok { // an API server has called its filters
			mux.ServeHTTP(w, r)
			return
		}
		alone.ServeHTTP(w, r)
	})), nil
}

// resources serves the resource and its status.
type resources struct {
	works, status      *storage
	scope, statusScope *handlers.RequestScope
	options            Options
}

func (s *resources) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || !isOfWorks(info) || info.Namespace == "" && info.Verb != "list" && info.Verb != "watch" {
		notFound(w, r, info)
		return
	}
	var handle http.HandlerFunc
	switch info.Subresource {
	case "":
		handle = s.ofWorks(info.Verb)
	case string(clientset.StatusPart):
		handle = s.ofStatus(info.Verb)
	default:
		writeError(w, r, apierrors.NewNotFound(clientset.Resource, info.Name))
		return
	}
	if err := inPath("Namespace", info.Namespace); err != nil {
		writeError(w, r, err)
		return
	}
	if info.Verb == "watch" && wsstream.IsWebSocketRequest(r) {
		if !hijackable(w) {
			writeError(w, r, apierrors.NewBadRequest("a watch over a websocket needs a connection with HTTP/1.1"))
			return
		}
		var end context.CancelFunc
		r, end = untilShutdown(r)
		defer end()
	}
	if handle == nil {
		writeError(w, r, apierrors.NewMethodNotSupported(clientset.Resource, info.Verb))
		return
	}
	if s.options.ReadOnly && !slices.Contains(readVerbs, info.Verb) {
		writeError(w, r, clientset.NotSupported(clientset.Resource, info.Verb, "the server is read-only"))
		return
	}
	ctx := r.Context()
	if audit.AuditContextFrom(ctx) == nil {
		r = r.WithContext(audit.WithAuditContext(ctx)) // the handlers need one, even if it records nothing
	}
	handle(w, r)
}

func isOfWorks(info *request.RequestInfo) bool {
	return info.IsResourceRequest && info.APIGroup == workv1.GroupName && info.APIVersion == "v1" &&
		info.Resource == clientset.Resource.Resource
}

// Serves reports whether a request is for works or their status.
func Serves(info *request.RequestInfo) bool {
	return isOfWorks(info) && (info.Subresource == "" || info.Subresource == string(clientset.StatusPart))
}

// hijackable reports whether the handler can take over the connection of a response.
func hijackable(w http.ResponseWriter) bool {
	if inner, ok := w.(*warned); ok {
		w = inner.ResponseWriter
	}
	_, ok := w.(http.Hijacker)
	return ok
}

// untilShutdown returns a request with a context that also ends when the server shuts down. The API
// server's handlers end only watches without a websocket then.
func untilShutdown(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, end := context.WithCancel(r.Context())
	if signals := request.ServerShutdownSignalFrom(ctx); signals != nil {
		go func() {
			select {
			case <-signals.ShuttingDown():
				end()
			case <-ctx.Done():
			}
		}()
	}
	return r.WithContext(ctx), end
}

func (s *resources) ofWorks(verb string) http.HandlerFunc {
	switch verb {
	case "get":
		return handlers.GetResource(s.works, s.scope)
	case "list", "watch":
		return handlers.ListResource(reader{s.works}, reader{s.works}, s.scope, verb == "watch", minWatch)
	case "create":
		return handlers.CreateResource(s.works, s.scope, s.options.Admission)
	case "update":
		return handlers.UpdateResource(s.works, s.scope, s.options.Admission)
	case "patch":
		return handlers.PatchResource(s.works, s.scope, s.options.Admission, patchTypes)
	case "delete":
		return handlers.DeleteResource(s.works, true, s.scope, s.options.Admission)
	case "deletecollection":
		return handlers.DeleteCollection(s.works, true, s.scope, s.options.Admission)
	}
	return nil
}

func (s *resources) ofStatus(verb string) http.HandlerFunc {
	switch verb {
	case "get":
		return handlers.GetResource(s.status, s.statusScope)
	case "update":
		return handlers.UpdateResource(s.status, s.statusScope, s.options.Admission)
	case "patch":
		return handlers.PatchResource(s.status, s.statusScope, s.options.Admission, patchTypes)
	}
	return nil
}

func writeError(w http.ResponseWriter, r *http.Request, err error) {
	responsewriters.ErrorNegotiated(err, codecs, schema.GroupVersion{Group: workv1.GroupName, Version: "v1"}, w, r)
}
