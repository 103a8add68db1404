// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	workv1 "open-cluster-management.io/api/work/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
)

// The client and the cache of a manager find works at a source, and everything else on the manager's
// own cluster. A controller that was written for the API server with the CRD does not change.
func Example_oneClient() {
	transport := must(mqtt.New(mqtt.Options{BrokerURL: "mqtts://broker:8883", CAFile: "ca.crt"}))
	store := must(boltstore.Open("works.db", boltstore.Options{}))
	hub := must(work.NewSource(transport, work.SourceOptions{SourceID: "greeter", Store: store}))

	config, mapper, err := restconfig.Join(
		ctrl.GetConfigOrDie(), must(restconfig.FromSource(hub)), apiutil.NewDynamicRESTMapper)
	utilruntime.Must(err)
	mgr := must(ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, MapperProvider: mapper, LeaderElection: true, LeaderElectionID: "greeter.example.com",
	}))
	utilruntime.Must(errors.Join(
		mgr.Add(hub),
		ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&workv1.ManifestWork{}).
			Complete(&greeter{hub: mgr.GetClient(), works: mgr.GetClient()}),
	))
	fmt.Println(mgr.Start(ctrl.SetupSignalHandler()), store.Close())
}

// A client with a configuration of Join creates a work at the source, although the cluster cannot be
// reached.
func ExampleJoin() {
	hub := must(work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "greeter"}))
	config, mapper, err := restconfig.Join(&rest.Config{Host: "https://hub.invalid"},
		must(restconfig.FromSource(hub)), apiutil.NewDynamicRESTMapper)
	utilruntime.Must(err)
	c := must(client.New(config, client.Options{
		Scheme: scheme, Mapper: must(mapper(config, must(rest.HTTPClientFor(config)))),
	}))

	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "hello"}}
	utilruntime.Must(c.Create(context.Background(), w))
	fmt.Println(w.Name, "has the generation", w.Generation)
	// Output: hello has the generation 1
}
