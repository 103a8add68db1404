// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package load_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/paho"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
)

// attackEnv is the environment variable that makes this program a hostile client. The client is a
// separate process, so its memory does not count.
const attackEnv = "SPOKEWIRE_LOAD_ATTACK"

// attackBegins is the first line that the client prints, after it has received its work.
const attackBegins = "attacking"

// attackOrder is the content of attackEnv.
type attackOrder struct {
	Addr, User, Cluster string
	For                 time.Duration
}

// attacker is a client with valid credentials of one cluster.
type attacker struct {
	attackOrder
	sent   map[string]*atomic.Int64
	spec   chan *codec.Spec
	number atomic.Int64
}

// attack sends at full rate, and prints the number of sent messages of each kind.
func attack(order string) error {
	a := &attacker{sent: map[string]*atomic.Int64{}, spec: make(chan *codec.Spec, 1)}
	if err := json.Unmarshal([]byte(order), &a.attackOrder); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.For+time.Minute)
	defer cancel()
	client, err := a.dial(ctx)
	if err != nil {
		return err
	}
	if _, err := client.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{
		{Topic: "/sources/+/clusters/" + a.Cluster + "/manifests", QoS: 1},
	}}); err != nil {
		return err
	}
	spec, err := a.listed(ctx, client)
	if err != nil {
		return err
	}
	fmt.Println(attackBegins)
	if err := a.run(ctx, spec); err != nil {
		return err
	}
	for kind, n := range a.sent {
		fmt.Printf("%s: %d, ", kind, n.Load())
	}
	return nil
}

// listed requests the cluster's works, as an agent does, until it receives one. It repeats the
// request, because the broker drops requests that exceed its queue.
func (a *attacker) listed(ctx context.Context, client *paho.Client) (*codec.Spec, error) {
	for {
		if err := publish(ctx, client, a.list("", codec.Chunk{}, nil)); err != nil {
			return nil, err
		}
		select {
		case spec := <-a.spec:
			return spec, nil
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return nil, errors.New("the source has sent no work")
		}
	}
}

func (a *attacker) dial(ctx context.Context) (*paho.Client, error) {
	conn, err := net.Dial("tcp", a.Addr)
	if err != nil {
		return nil, err
	}
	client := paho.NewClient(
		paho.ClientConfig{Conn: conn, OnPublishReceived: []func(paho.PublishReceived) (bool, error){a.receive}})
	_, err = client.Connect(ctx, &paho.Connect{
		CleanStart: true, KeepAlive: 60, Username: a.User, UsernameFlag: true, Password: []byte(a.User), PasswordFlag: true,
	})
	return client, err
}

func (a *attacker) receive(p paho.PublishReceived) (bool, error) {
	if m, err := decode(p.Packet); err == nil {
		if spec, ok := m.(*codec.Spec); ok && spec.DeletionTimestamp == nil {
			select {
			case a.spec <- spec:
			default:
			}
		}
	}
	return true, nil
}

func decode(p *paho.Publish) (codec.Message, error) {
	event, err := codec.ParseStructured(p.Payload)
	if err != nil {
		return nil, err
	}
	return codec.ManifestWork.Decode(p.Topic, event)
}

// run sends each kind of attack on a separate connection.
func (a *attacker) run(ctx context.Context, spec *codec.Spec) error {
	ctx, cancel := context.WithTimeout(ctx, a.For)
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	for kind, message := range a.attacks(spec) {
		client, err := a.dial(ctx)
		if err != nil {
			cancel()
			return err
		}
		sent := &atomic.Int64{}
		a.sent[kind] = sent
		for range 8 {
			group.Go(func() {
				for ctx.Err() == nil {
					if err := message(ctx, client); err != nil && ctx.Err() == nil {
						fmt.Printf("%s: %v, ", kind, err)
						return
					}
					sent.Add(1)
				}
			})
		}
	}
	return nil
}

func (a *attacker) attacks(spec *codec.Spec) map[string]func(context.Context, *paho.Client) error {
	large := strings.Repeat("x", 2<<20)
	next := func() int64 { return time.Now().UnixMilli()<<20 + a.number.Add(1) }
	return map[string]func(context.Context, *paho.Client) error{
		"statuses of 2 MiB": func(ctx context.Context, c *paho.Client) error {
			return publish(ctx, c, a.status(spec.WorkRef, next(), fmt.Sprint(rand.Uint64(), large)))
		},
		// The longest condition that the CRD allows.
		"allowed statuses": func(ctx context.Context, c *paho.Client) error {
			return publish(ctx, c, a.status(spec.WorkRef, next(), fmt.Sprint(rand.Uint64(), large[:32<<10-32])))
		},
		"junk": func(ctx context.Context, c *paho.Client) error {
			return send(ctx, c, "/sources/hub/clusters/"+a.Cluster+"/manifestsstatus", []byte(large[:rand.IntN(4096)]))
		},
		"statuses of unknown works": func(ctx context.Context, c *paho.Client) error {
			name := uuid.NewString()
			return publish(ctx, c, a.status(codec.WorkRef{
				ResourceID: codec.ManifestWork.ResourceID("hub", a.Cluster, name), Name: name, UID: types.UID(uuid.NewString()),
				Version: next(),
			}, next(), large[:1024]))
		},
		"endless lists": func(ctx context.Context, c *paho.Client) error {
			entries := make([]codec.SpecEntry, 500)
			for i := range entries {
				entries[i] = codec.SpecEntry{ResourceID: uuid.NewString(), Version: next(), UID: types.UID(uuid.NewString()),
					Source: "hub"}
			}
			return publish(ctx, c, a.list(uuid.NewString(), codec.Chunk{Index: rand.IntN(1000), Count: 1000}, entries))
		},
		"numbers far ahead": func(ctx context.Context, c *paho.Client) error {
			ref := spec.WorkRef
			ref.Version = math.MaxInt64 - rand.Int64N(1000)
			return publish(ctx, c, a.status(ref, math.MaxInt64-rand.Int64N(1000), "ahead"))
		},
	}
}

func (a *attacker) header() codec.Header {
	return codec.Header{ID: uuid.NewString(), Time: time.Now().UTC(), Source: "hub", Cluster: a.Cluster, Agent: "rogue"}
}

func (a *attacker) status(ref codec.WorkRef, sequence int64, message string) codec.Message {
	return &codec.Status{Header: a.header(), WorkRef: ref, SequenceID: sequence,
		Status: &workv1.ManifestWorkStatus{Conditions: []metav1.Condition{{
			Type: "Applied", Status: metav1.ConditionTrue, Reason: "Tested", Message: message, LastTransitionTime: metav1.Now(),
		}}}}
}

func (a *attacker) list(resyncID string, chunk codec.Chunk, entries []codec.SpecEntry) codec.Message {
	header := a.header()
	header.ResyncID = resyncID
	return &codec.SpecResync{Header: header, AgentSession: "rogue", Chunk: chunk, Entries: entries}
}

func publish(ctx context.Context, c *paho.Client, m codec.Message) error {
	topic, event, err := codec.ManifestWork.Encode(m)
	if err != nil {
		return err
	}
	payload, err := codec.AppendStructured(nil, event)
	if err != nil {
		return err
	}
	return send(ctx, c, topic, payload)
}

func send(ctx context.Context, c *paho.Client, topic string, payload []byte) error {
	_, err := c.Publish(ctx, &paho.Publish{
		Topic: topic, QoS: 1, Payload: payload,
		Properties: &paho.PublishProperties{ContentType: "application/cloudevents+json"},
	})
	return err
}
