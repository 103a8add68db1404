// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package interop_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"
	ocmoptions "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/options"
	ocmwork "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work"
	agentcodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/agent/codec"
	sourcecodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/source/codec"
	ocmstore "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/store"
	ocmclients "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/clients"
	ocmmqtt "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/mqtt"
	ocmtypes "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/types"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

func TestMain(m *testing.M) {
	// Otherwise the OCM clients reconnect after 5 s to a minute.
	ocmclients.DelayFn = func() time.Duration { return time.Second }
	os.Exit(m.Run())
}

const (
	sourceID = "hub"
	cluster  = "cluster1"
	name     = "app"
)

// peer is a source or an agent of either SDK, behind its own link.
type peer struct {
	link  *tcpproxy.Proxy
	works worktyped.ManifestWorkInterface
	store cache.Store // of an informer
}

// pair is a source and an agent.
type pair struct{ source, agent *peer }

// mode holds the other differences between two runs of the same steps.
type mode struct {
	name string
	// versioned is whether works have versions.
	versioned bool
	// broadcast is whether an agent sends requests to all sources, or only to its configured
	// source.
	broadcast bool
	// clusters is the topic level of clusters, and group is the shared group of our subscriptions.
	clusters, group string
	packet          uint32 // our largest packet, in bytes; 0: no limit
}

var modes = []mode{
	{name: "versioned", versioned: true, broadcast: true, clusters: "clusters"},
	{name: "unversioned", clusters: "clusters"},
	{name: "consumers and shared subscriptions", versioned: true, broadcast: true, clusters: "consumers", group: "ours"},
}

func (m mode) topics() ocmtypes.Topics {
	t := ocmtypes.Topics{
		SourceEvents:    "sources/" + sourceID + "/" + m.clusters + "/+/sourceevents",
		AgentEvents:     "sources/" + sourceID + "/" + m.clusters + "/+/agentevents",
		SourceBroadcast: "sources/+/sourcebroadcast",
	}
	if m.broadcast {
		t.AgentBroadcast = m.clusters + "/+/agentbroadcast"
	}
	return t
}

// profile returns the profile of our side.
func (m mode) profile(t *testing.T) codec.Profile {
	p, err := codec.NewManifestBundle(codec.ManifestBundleOptions{ClustersLevel: m.clusters, SharedGroup: m.group})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (m mode) theirOptions(addr string) *ocmmqtt.MQTTOptions {
	return &ocmmqtt.MQTTOptions{
		Topics: m.topics(), KeepAlive: 60, PubQoS: 1, SubQoS: 1,
		Dialer: &ocmmqtt.MQTTDialer{BrokerHost: addr, Timeout: 5 * time.Second},
	}
}

// their returns the context of the OCM side, which ends with the test.
func their(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ctx
}

// sourceStore is the store of an OCM source. The source checks whether the store has an informer
// while the informer is set.
type sourceStore struct {
	*ocmstore.SourceInformerWatcherStore
	set atomic.Bool
}

func (s *sourceStore) HasInitiated() bool {
	return s.set.Load() && s.SourceInformerWatcherStore.HasInitiated()
}

func (s *sourceStore) SetInformer(informer cache.SharedIndexInformer) {
	s.SourceInformerWatcherStore.SetInformer(informer)
	s.set.Store(true)
}

func theirSource(t *testing.T, broker *mosquitto.Broker, m mode) *peer {
	ctx, link := their(t), tcpproxy.Start(t, broker.Addr())
	watched := &sourceStore{SourceInformerWatcherStore: ocmstore.NewSourceInformerWatcherStore(ctx)}
	options := ocmoptions.NewGenericClientOptions(m.theirOptions(link.Addr()), sourcecodec.NewManifestBundleCodec(),
		sourceID+"-client").
		WithSourceID(sourceID).
		WithClientWatcherStore(watched)
	holder, err := ocmwork.NewSourceClientHolder(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	return newPeer(t, link, holder.WorkInterface(), watched.SetInformer)
}

func theirAgent(t *testing.T, broker *mosquitto.Broker, m mode) *peer {
	ctx, link := their(t), tcpproxy.Start(t, broker.Addr())
	options := ocmoptions.NewGenericClientOptions(m.theirOptions(link.Addr()), agentcodec.NewManifestBundleCodec(),
		cluster+"-agent").
		WithClusterName(cluster).
		WithClientWatcherStore(ocmstore.NewAgentInformerWatcherStore())
	holder, err := ocmwork.NewAgentClientHolder(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	return newPeer(t, link, holder.WorkInterface(), nil)
}

// newPeer starts an informer on a clientset. set passes the informer to the OCM SDK's source, which
// stores its works there.
func newPeer(
	t *testing.T, link *tcpproxy.Proxy, clientset workclientset.Interface, set func(cache.SharedIndexInformer),
) *peer {
	factory := workinformers.NewSharedInformerFactory(clientset, 0)
	informer := factory.Work().V1().ManifestWorks().Informer()
	if set != nil {
		set(informer)
	}
	stop := make(chan struct{})
	factory.Start(stop)
	t.Cleanup(func() { close(stop); factory.Shutdown() })
	if !cache.WaitForCacheSync(stop, informer.HasSynced) {
		t.Fatal("an informer did not sync")
	}
	return &peer{link: link, works: clientset.WorkV1().ManifestWorks(cluster), store: informer.GetStore()}
}

// starter is a source or an agent of this SDK.
type starter interface {
	Start(context.Context) error
	Ready() <-chan struct{}
	Clientset() workclientset.Interface
}

// run starts a source or an agent, and returns it with a function that ends it.
func run(t *testing.T, s starter, link *tcpproxy.Proxy) (_ *peer, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	select {
	case <-s.Ready():
	case <-time.After(e2etest.Patience):
		t.Fatal("not connected")
	}
	return newPeer(t, link, s.Clientset(), nil), stop
}

func transport(t *testing.T, link *tcpproxy.Proxy, m mode) *mqtt.Transport {
	tr, err := mqtt.New(mqtt.Options{BrokerURL: "mqtt://" + link.Addr(), MaxPacketSize: m.packet})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func ourSource(t *testing.T, broker *mosquitto.Broker, m mode) (_ *peer, stop func()) {
	link := tcpproxy.Start(t, broker.Addr())
	source, err := work.NewSource(transport(t, link, m), work.SourceOptions{SourceID: sourceID, Profile: m.profile(t)})
	if err != nil {
		t.Fatal(err)
	}
	return run(t, source, link)
}

func ourAgent(t *testing.T, broker *mosquitto.Broker, m mode) *peer {
	link := tcpproxy.Start(t, broker.Addr())
	options := work.AgentOptions{ClusterName: cluster, Profile: m.profile(t)}
	if !m.broadcast {
		options.Sources = []string{sourceID}
	}
	agent, err := work.NewAgent(transport(t, link, m), options)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := run(t, agent, link)
	return p
}

// away cuts the peer's link until back is called.
func (p *peer) away(t *testing.T) (back func()) {
	t.Helper()
	p.link.Block()
	p.link.Cut()
	eventually(t, "the link is cut", func() error { return when(p.link.Links() == 0, "it is not") })
	return p.link.Unblock
}

// shown returns the work in the peer's informer, or nil.
func (p *peer) shown(work string) *workv1.ManifestWork {
	obj, ok, err := p.store.GetByKey(cluster + "/" + work)
	if err != nil || !ok {
		return nil
	}
	return obj.(*workv1.ManifestWork)
}
