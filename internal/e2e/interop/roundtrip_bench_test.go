// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package interop_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/statushash"
	ocmclientstore "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/store"
	ocmagent "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/agent/client"
	agentcodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/agent/codec"
	ocmsource "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/source/client"
	sourcecodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/source/codec"
	ocmstore "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/store"
	ocmclients "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/clients"
	ocmmqtt "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/v2/mqtt"
	ocmtypes "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/types"
	ocmutils "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/utils"

	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// The same values as in BenchmarkRoundTrip of package cloudevents/work.
const (
	benchAgents     = 4
	benchPublishers = 16
	benchAhead      = 512 // round trips in progress
)

// unlimited replaces the OCM SDK's limit of 50 events per second.
var unlimited = ocmutils.EventRateLimit{QPS: 1e9, Burst: 1e9}

// BenchmarkTheirRoundTrip is BenchmarkRoundTrip of package cloudevents/work with the OCM SDK on
// both sides, without its rate limit. A round trip is a Create on the source, an informer add on
// the agent, a status patch, and an informer update on the source. The works have 1 KiB and are
// sent over Mosquitto. Run both with -benchtime=10000x.
func BenchmarkTheirRoundTrip(b *testing.B) {
	broker := mosquitto.Start(b, mosquitto.Options{})
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{})) // discards
	b.Cleanup(cancel)
	ahead := make(chan struct{}, benchAhead)
	works := benchTheirSource(ctx, b, broker, func() { <-ahead })
	for i := range benchAgents {
		benchTheirAgent(ctx, b, broker, fmt.Sprintf("cluster%d", i))
	}
	for i := range works { // no signal reports that all have subscribed and resynced
		for n, returned := 0, false; !returned; n++ {
			ahead <- struct{}{}
			probe := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("probe-%d-%d", i, n)}}
			probe.Spec.Workload.Manifests = manifests("probe")
			if _, err := works[i].Create(ctx, probe, metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
			for end := time.Now().Add(3 * time.Second); !returned && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				returned = len(ahead) == 0
			}
			if !returned {
				<-ahead
			}
		}
	}
	var group sync.WaitGroup
	jobs := make(chan int)
	value := strings.Repeat("v", 900)
	for range benchPublishers {
		group.Go(func() {
			for i := range jobs {
				w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("work-%d", i)}}
				w.Spec.Workload.Manifests = manifests(value)
				if _, err := works[i%benchAgents].Create(ctx, w, metav1.CreateOptions{}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		ahead <- struct{}{}
		jobs <- i
		i++
	}
	close(jobs)
	group.Wait()
	for range benchAhead {
		ahead <- struct{}{}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "trips/s")
}

// benchTheirSource returns the clients that create works in each cluster. It calls returned for
// each work that has a status.
func benchTheirSource(
	ctx context.Context, b *testing.B, broker *mosquitto.Broker, returned func(),
) []worktyped.ManifestWorkInterface {
	watched := &sourceStore{SourceInformerWatcherStore: ocmstore.NewSourceInformerWatcherStore(ctx)}
	options := ocmmqtt.NewSourceOptions(modes[0].theirOptions(broker.Addr()), sourceID+"-client", sourceID)
	options.EventRateLimit = unlimited
	client, err := ocmclients.NewCloudEventSourceClient(ctx, options, ocmclientstore.NewSourceWatcherStoreLister(watched),
		statushash.StatusHash, sourcecodec.NewManifestBundleCodec())
	if err != nil {
		b.Fatal(err)
	}
	// One client for each namespace: setting the namespace is not safe for concurrent use.
	in := func(namespace string) *ocmsource.ManifestWorkSourceClient {
		c := ocmsource.NewManifestWorkSourceClient(sourceID, watched, client)
		c.SetNamespace(namespace)
		return c
	}
	informer := benchInformer(ctx, b, in(metav1.NamespaceAll),
		cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, now any) {
			if len(before.(*workv1.ManifestWork).Status.Conditions) == 0 &&
				len(now.(*workv1.ManifestWork).Status.Conditions) > 0 {
				returned()
			}
		}})
	watched.SetInformer(informer)
	client.Subscribe(ctx, watched.HandleReceivedResource)
	go informer.Run(ctx.Done())
	go resync(ctx, client.SubscribedChan(), func() error { return client.Resync(ctx, ocmtypes.ClusterAll) })
	var works []worktyped.ManifestWorkInterface
	for i := range benchAgents {
		works = append(works, in(fmt.Sprintf("cluster%d", i)))
	}
	return works
}

func benchTheirAgent(ctx context.Context, b *testing.B, broker *mosquitto.Broker, cluster string) {
	watched := ocmstore.NewAgentInformerWatcherStore()
	options := ocmmqtt.NewAgentOptions(modes[0].theirOptions(broker.Addr()), cluster, cluster+"-agent")
	options.EventRateLimit = unlimited
	client, err := ocmclients.NewCloudEventAgentClient(ctx, options, ocmclientstore.NewAgentWatcherStoreLister(watched),
		statushash.StatusHash, agentcodec.NewManifestBundleCodec())
	if err != nil {
		b.Fatal(err)
	}
	works := ocmagent.NewManifestWorkAgentClient(ctx, cluster, watched, client)
	works.SetNamespace(cluster)
	patch := []byte(`{"status":{"conditions":[{"type":"Applied","status":"True","reason":"AppliedManifestWorkComplete","message":"Apply manifest work complete","lastTransitionTime":"2026-01-01T00:00:00Z"},` +
		`{"type":"Available","status":"True","reason":"ResourcesAvailable","message":"All resources are available","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	informer := benchInformer(ctx, b, works, cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if _, err := works.Patch(ctx, obj.(*workv1.ManifestWork).Name, types.MergePatchType, patch, metav1.PatchOptions{},
			"status"); err != nil && ctx.Err() == nil {
			b.Error(err)
		}
	}})
	client.Subscribe(ctx, watched.HandleReceivedResource)
	go informer.Run(ctx.Done())
	go resync(ctx, client.SubscribedChan(), func() error { return client.Resync(ctx, ocmtypes.SourceAll) })
}

func benchInformer(
	ctx context.Context, b *testing.B, works worktyped.ManifestWorkInterface, handler cache.ResourceEventHandlerFuncs,
) cache.SharedIndexInformer {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object,
			error) {
			return works.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface,
			error) {
			return works.Watch(ctx, o)
		},
	}, &workv1.ManifestWork{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if _, err := informer.AddEventHandler(handler); err != nil {
		b.Fatal(err)
	}
	return informer
}

// resync does the same as the OCM client holders after a client has subscribed.
func resync(ctx context.Context, subscribed <-chan struct{}, ask func() error) {
	for {
		select {
		case <-subscribed:
			_ = ask() // the error is logged there
		case <-ctx.Done():
			return
		}
	}
}
