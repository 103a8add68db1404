// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	workv1 "open-cluster-management.io/api/work/v1"
)

// MapperProvider returns the RESTMapper for a configuration. It has the type of the option
// MapperProvider of controller-runtime's managers and clusters.
type MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error)

// Join returns a copy of the configuration of a cluster with the works of another configuration. Its
// clients send requests for works to the source or the agent of works, and all other requests to the
// cluster. The rate limit of the cluster's configuration is for all requests.
//
// Discovery of the cluster does not list the works. So Join also returns a provider of RESTMappers
// for both. It calls mapper, usually apiutil.NewDynamicRESTMapper of controller-runtime, for each of
// the two configurations.
//
// Join returns an error if works is not a configuration of [FromSource] or [FromAgent].
func Join(cluster, works *rest.Config, mapper MapperProvider) (*rest.Config, MapperProvider, error) {
	if cluster == nil || works == nil || mapper == nil {
		return nil, nil, errors.New("restconfig.Join: the configurations and the mapper must not be nil")
	}
	direct, ok := works.Transport.(transport)
	if !ok {
		return nil, nil, errors.New("restconfig.Join: works must be a configuration of FromSource or FromAgent")
	}
	base, _, err := rest.DefaultServerUrlFor(cluster)
	if err != nil {
		return nil, nil, fmt.Errorf("restconfig.Join: the host of the cluster: %w", err)
	}
	prefix := strings.TrimSuffix(path.Join("/", base.Path), "/")
	both := rest.CopyConfig(cluster)
	both.Wrap(func(next http.RoundTripper) http.RoundTripper { return router{next, direct, prefix} })
	return both, func(c *rest.Config, h *http.Client) (meta.RESTMapper, error) {
		ofWorks, err := mapper(works, &http.Client{Transport: direct})
		if err != nil {
			return nil, err
		}
		ofCluster, err := mapper(c, h)
		if err != nil {
			return nil, err
		}
		return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{ofWorks, ofCluster}}, nil
	}, nil
}

// router sends requests for works to a source or an agent, and all other requests to a cluster.
type router struct {
	cluster http.RoundTripper
	works   transport
	prefix  string // of the cluster's paths: a proxy may serve its API at a path
}

// RoundTrip implements [http.RoundTripper].
func (t router) RoundTrip(r *http.Request) (*http.Response, error) {
	below, ok := strings.CutPrefix(r.URL.Path, t.prefix)
	if !ok || !strings.HasPrefix(below+"/", "/apis/"+workv1.GroupName+"/v1/") {
		return t.cluster.RoundTrip(r)
	}
	if t.prefix != "" {
		r = r.Clone(r.Context())
		r.URL.Path, r.URL.RawPath = below, ""
	}
	return t.works.RoundTrip(r)
}
