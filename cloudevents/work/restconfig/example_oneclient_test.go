// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	workv1 "open-cluster-management.io/api/work/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
)

// router sends requests for works to a source, and all other requests to a cluster.
type router struct{ cluster, works http.RoundTripper }

func (t router) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path+"/", "/apis/work.open-cluster-management.io/v1/") {
		return t.works.RoundTrip(r)
	}
	return t.cluster.RoundTrip(r)
}

// withWorks returns the configuration of a cluster with the works of another configuration. It also
// returns a provider of RESTMappers for both, since discovery of the cluster does not list the works.
func withWorks(cluster, works *rest.Config) (*rest.Config, mapperProvider) {
	config := rest.CopyConfig(cluster)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return router{next, works.Transport} })
	return config, func(c *rest.Config, h *http.Client) (meta.RESTMapper, error) {
		ofWorks, err := apiutil.NewDynamicRESTMapper(works, &http.Client{Transport: works.Transport})
		if err != nil {
			return nil, err
		}
		ofCluster, err := apiutil.NewDynamicRESTMapper(c, h)
		return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{ofWorks, ofCluster}}, err
	}
}

type mapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error)

// The client and the cache of a manager find works at a source, and everything else on the manager's
// own cluster. A controller that was written for the API server with the CRD does not change.
func Example_oneClient() {
	transport := must(mqtt.New(mqtt.Options{BrokerURL: "mqtts://broker:8883", CAFile: "ca.crt"}))
	hub := must(work.NewSource(transport, work.SourceOptions{SourceID: "greeter"}))

	config, mapper := withWorks(ctrl.GetConfigOrDie(), must(restconfig.FromSource(hub)))
	mgr := must(ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, MapperProvider: mapper, LeaderElection: true, LeaderElectionID: "greeter.example.com",
	}))
	utilruntime.Must(errors.Join(
		mgr.Add(hub),
		ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&workv1.ManifestWork{}).
			Complete(&greeter{hub: mgr.GetClient(), works: mgr.GetClient()}),
	))
	fmt.Println(mgr.Start(ctrl.SetupSignalHandler()))
}
