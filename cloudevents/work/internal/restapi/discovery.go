// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/component-base/version"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
)

// minWatch is the least time after which a watch without a timeout ends, as on an API server. It
// ends at a random time within twice that.
const minWatch = 30 * time.Minute

var (
	verbs       = []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
	statusVerbs = []string{"get", "patch", "update"}
	readVerbs   = []string{"get", "list", "watch"}
)

// Discovery describes the resource, with the verbs that a handler for the clientset supports. It
// returns the group, and a handler for the aggregated discovery document of all groups.
func Discovery(c workclientset.Interface, o Options) (metav1.APIGroup, http.HandlerFunc) {
	group, v1 := discoveryOf(c, o)
	return group, serveGroup(group, v1)
}

func serveGroup(group metav1.APIGroup, version apidiscoveryv2.APIVersionDiscovery) http.HandlerFunc {
	return serveGroups([]apidiscoveryv2.APIGroupDiscovery{{
		ObjectMeta: metav1.ObjectMeta{Name: group.Name}, Versions: []apidiscoveryv2.APIVersionDiscovery{version},
	}})
}

func discoveryOf(c workclientset.Interface, o Options) (metav1.APIGroup, apidiscoveryv2.APIVersionDiscovery) {
	v, _ := clientset.VerbsOf(c, "")
	supported := func(verbs []string, sub clientset.Subresource) (out []string) {
		for _, verb := range verbs {
			if slices.Contains(readVerbs, verb) || !o.ReadOnly && v.Supports(verb, sub) == nil {
				out = append(out, verb)
			}
		}
		return out
	}
	kind := &metav1.GroupVersionKind{Group: workv1.GroupName, Version: "v1", Kind: clientset.Kind.Kind}
	v1 := metav1.GroupVersionForDiscovery{GroupVersion: workv1.GroupName + "/v1", Version: "v1"}
	return metav1.APIGroup{
			Name: workv1.GroupName, Versions: []metav1.GroupVersionForDiscovery{v1}, PreferredVersion: v1,
		}, apidiscoveryv2.APIVersionDiscovery{
			Version: "v1",
			Resources: []apidiscoveryv2.APIResourceDiscovery{{
				Resource: clientset.Resource.Resource, ResponseKind: kind, Scope: apidiscoveryv2.ScopeNamespace,
				SingularResource: "manifestwork", Verbs: supported(verbs, ""),
				Subresources: []apidiscoveryv2.APISubresourceDiscovery{{
					Subresource: string(clientset.StatusPart), ResponseKind: kind,
					Verbs: supported(statusVerbs, clientset.StatusPart),
				}},
			}},
			Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent,
		}
}

// addDiscovery adds the paths at which clients find the resource and its schema.
func addDiscovery(mux *mux.PathRecorderMux, c workclientset.Interface, o Options) {
	group, v1 := discoveryOf(c, o)
	handle := func(path string, h http.Handler) {
		mux.Handle(path, h)
		mux.Handle(path+"/", h)
	}
	handle("/version", onlyGet(func(w http.ResponseWriter, _ *http.Request) {
		responsewriters.WriteRawJSON(http.StatusOK, serverVersion(), w)
	}))
	handle("/api", aggregated.WrapAggregatedDiscoveryToHandler(onlyGet(serveNoCore),
		serveGroups([]apidiscoveryv2.APIGroupDiscovery{}), nil))
	handle("/apis", aggregated.WrapAggregatedDiscoveryToHandler(
		serveObject(&metav1.APIGroupList{Groups: []metav1.APIGroup{group}}), serveGroup(group, v1), nil))
	handle(groupPath, serveObject(&group))
	handle(versionPath, serveObject(&metav1.APIResourceList{
		GroupVersion: group.PreferredVersion.GroupVersion, APIResources: resourcesOf(v1.Resources[0]),
	}))
	openAPI := OpenAPI()
	mux.Handle(openAPIV2Path, openAPI)
	mux.Handle(openAPIV3Path, openAPI)
	mux.HandlePrefix(openAPIV3Path+"/", openAPI)
}

// resourcesOf converts the description of a resource to that of clients without aggregated
// discovery.
func resourcesOf(r apidiscoveryv2.APIResourceDiscovery) []metav1.APIResource {
	kind := r.ResponseKind
	out := []metav1.APIResource{{
		Name: r.Resource, SingularName: r.SingularResource, Namespaced: true, Kind: kind.Kind, Verbs: r.Verbs,
		StorageVersionHash: discovery.StorageVersionHash(kind.Group, kind.Version, kind.Kind),
	}}
	for _, sub := range r.Subresources {
		out = append(out, metav1.APIResource{
			Name: r.Resource + "/" + sub.Subresource, Namespaced: true, Kind: kind.Kind, Verbs: sub.Verbs,
		})
	}
	return out
}

// serveObject serves a discovery document, also in protobuf.
func serveObject(obj runtime.Object) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		own := obj.DeepCopyObject() // the encoder sets the kind
		responsewriters.WriteObjectNegotiated(Codecs, negotiation.DefaultEndpointRestrictions,
			schema.GroupVersion{}, w, r, http.StatusOK, own, false)
	}
}

// serveNoCore answers that there is no resource in the group "", which has no discovery document of
// its own.
func serveNoCore(w http.ResponseWriter, _ *http.Request) {
	responsewriters.WriteRawJSON(http.StatusOK, metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{},
	}, w)
}

var discoveryCodecs = func() serializer.CodecFactory {
	s := runtime.NewScheme()
	if err := apidiscoveryv2.AddToScheme(s); err != nil {
		panic(err) // depends on no input
	}
	return serializer.NewCodecFactory(s)
}()

// serveGroups serves an aggregated discovery document, which has the resources of all groups.
func serveGroups(groups []apidiscoveryv2.APIGroupDiscovery) http.HandlerFunc {
	list := &apidiscoveryv2.APIGroupDiscoveryList{Items: groups}
	data, err := json.Marshal(list)
	if err != nil {
		panic(fmt.Errorf("encode a discovery document: %w", err)) // depends on no input
	}
	tag := hash(data)
	return func(w http.ResponseWriter, r *http.Request) {
		aggregated.ServeHTTPWithETag(list.DeepCopy(), tag, apidiscoveryv2.SchemeGroupVersion, discoveryCodecs, w, r)
	}
}

// onlyGet refuses the methods that have no route on an API server.
func onlyGet(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			writeError(w, r, apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, r.Method,
				schema.GroupResource{}, "", "", 0, false))
			return
		}
		next(w, r)
	}
}

// serverVersion is the version of Kubernetes with the behaviour of this handler.
func serverVersion() apiversion.Info {
	major, minor, _ := strings.Cut(version.DefaultKubeBinaryVersion, ".")
	return apiversion.Info{
		Major: major, Minor: minor, GitVersion: "v" + version.DefaultKubeBinaryVersion + ".0",
		GoVersion: goruntime.Version(), Compiler: goruntime.Compiler, Platform: goruntime.GOOS + "/" + goruntime.GOARCH,
	}
}
