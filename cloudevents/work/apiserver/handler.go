// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/restapi"
)

// install adds the works of a clientset, and their group, to a generic server.
func install(
	c workclientset.Interface, group metav1.APIGroup, o restapi.Options, to *genericapiserver.GenericAPIServer,
) error {
	works, err := restapi.New(c, o)
	if err != nil {
		return err
	}
	to.DiscoveryGroupManager.AddGroup(group)
	mux, path := to.Handler.NonGoRestfulMux, genericapiserver.APIGroupPrefix+"/"+group.Name
	handler := measured(works)
	mux.Handle(path, handler)
	mux.HandlePrefix(path+"/", handler)
	mux.Handle("/openapi/v2", works)
	mux.Handle("/openapi/v3", works)
	mux.HandlePrefix("/openapi/v3/", works)
	return nil
}

// groups serves the aggregated discovery document of works. The manager of k8s.io/apiserver would log
// each group.
type groups struct {
	aggregated.ResourceManager
	document http.Handler
}

// ServeHTTP implements [aggregated.ResourceManager].
func (g groups) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.document.ServeHTTP(w, r) }

// measured adds a handler's requests for works to the metrics of the API server. It leaves out requests
// for unknown resources: each of their names would be a label.
func measured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !restapi.Serves(info) {
			next.ServeHTTP(w, r)
			return
		}
		metrics.InstrumentHandlerFunc(strings.ToUpper(info.Verb), info.APIGroup, info.APIVersion, info.Resource,
			info.Subresource, metrics.CleanScope(info), metrics.APIServerComponent, false, "", next.ServeHTTP)(w, r)
	})
}

// buildHandlerChain returns the filters of k8s.io/apiserver. In addition, it refuses requests of the
// front proxy until the server has read the proxy's CA from the cluster, shortly after its start.
// The filters would treat their users as anonymous, and forbid the requests.
func buildHandlerChain(h http.Handler, c *genericapiserver.Config) http.Handler {
	next, proxy := genericapiserver.DefaultBuildHandlerChain(h, c), c.Authentication.RequestHeaderConfig
	if proxy == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forwarded := func(user string) bool { return r.Header.Get(user) != "" }
		if slices.ContainsFunc(proxy.UsernameHeaders.Value(), forwarded) &&
			len(proxy.CAContentProvider.CurrentCABundleContent()) == 0 {
			restapi.WriteUnavailable(w, r, "the server has not read the CA of the front proxy yet")
			return
		}
		next.ServeHTTP(w, r)
	})
}
