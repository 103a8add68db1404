// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mosquitto_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"
	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// notAuthorized is the MQTT 5 reason code for requests that an ACL forbids.
const notAuthorized = 0x87

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect opens an MQTT session over conn and returns it with the broker's answer.
func connect(t *testing.T, conn net.Conn, user, password string) (*paho.Client, *paho.Connack, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	client := paho.NewClient(paho.ClientConfig{Conn: conn})
	ack, err := client.Connect(ctx, &paho.Connect{
		ClientID: t.Name(), CleanStart: true, KeepAlive: 30,
		Username: user, UsernameFlag: user != "",
		Password: []byte(password), PasswordFlag: password != "",
	})
	if err == nil {
		t.Cleanup(func() { _ = client.Disconnect(&paho.Disconnect{}) })
	}
	return client, ack, err
}

func dial(t *testing.T, broker *mosquitto.Broker) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", broker.Addr(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestAnnouncedLimits(t *testing.T) {
	tests := []struct {
		name     string
		reason   string
		options  mosquitto.Options
		inflight uint16
		packet   uint32
	}{
		{
			name:     "zero options",
			reason:   "a load test must not be throttled by Mosquitto's default of 20 in flight",
			inflight: 1000,
		},
		{
			name:     "default limits",
			reason:   "tests of a broker that drops messages need the limits that brokers have in practice",
			options:  mosquitto.Options{DefaultLimits: true},
			inflight: 20,
		},
		{
			name:     "small",
			reason:   "tests of refused packets need a broker that announces a limit",
			options:  mosquitto.Options{MaxInflight: 7, MaxQueued: -1, MaxPacketSize: 4096, MaxMessageSize: 2048},
			inflight: 7, packet: 4096,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			broker := mosquitto.Start(t, test.options)
			_, ack, err := connect(t, dial(t, broker), "", "")
			if err != nil {
				t.Fatal(err)
			}
			if got := ack.Properties.ReceiveMaximum; got == nil || *got != test.inflight {
				t.Errorf("receive maximum = %v, want %d: %s", got, test.inflight, test.reason)
			}
			if got := ack.Properties.MaximumPacketSize; (got == nil) != (test.packet == 0) || got != nil && *got != test.packet {
				t.Errorf("maximum packet size = %v, want %d: %s", got, test.packet, test.reason)
			}
		})
	}
}

func TestUsersAndACL(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{
		Users: map[string]string{"agent": "s3cret", "source": "other"},
		ACL:   "user agent\ntopic read /sources/+/clusters/cluster1/manifests\n",
	})
	for _, refused := range []struct{ user, password string }{{"", ""}, {"agent", "wrong"}, {"stranger", "s3cret"}} {
		if _, _, err := connect(t, dial(t, broker), refused.user, refused.password); err == nil {
			t.Errorf("user %q with password %q was let in", refused.user, refused.password)
		}
	}
	client, _, err := connect(t, dial(t, broker), "agent", "s3cret")
	if err != nil {
		t.Fatalf("right password: %v", err)
	}
	answer, err := client.Publish(t.Context(), &paho.Publish{Topic: "/sources/s/clusters/cluster1/manifests", QoS: 1})
	if err == nil || answer.ReasonCode != notAuthorized {
		t.Errorf("publish on a topic that the ACL lets it only read: %v, %v, want reason %d", answer, err, notAuthorized)
	}
}

func TestRestartKeepsTheAddress(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	url, pid := broker.URL(), broker.PID()
	for name, end := range map[string]func(){"Stop": broker.Stop, "Kill": broker.Kill, "nothing": func() {}} {
		conn := dial(t, broker)
		if _, _, err := connect(t, conn, "", ""); err != nil {
			t.Fatal(err)
		}
		end()
		if name != "nothing" {
			if conn, err := net.DialTimeout("tcp", broker.Addr(), time.Second); err == nil {
				_ = conn.Close()
				t.Errorf("after %s the port still accepts", name)
			}
		}
		broker.Restart()
		if broker.URL() != url || broker.PID() == pid {
			t.Errorf("after %s and Restart: URL %s, PID %d, want %s and a new process", name, broker.URL(), broker.PID(), url)
		}
		pid = broker.PID()
		if _, _, err := connect(t, dial(t, broker), "", ""); err != nil {
			t.Errorf("after %s and Restart: %v", name, err)
		}
	}
	if got := strings.Count(broker.Log(), " running"); got != 4 {
		t.Errorf("the log has %d starts, want 4: it spans restarts\n%s", got, broker.Log())
	}
}

func TestBrokersDoNotShare(t *testing.T) {
	first, second := mosquitto.Start(t, mosquitto.Options{}), mosquitto.Start(t, mosquitto.Options{})
	if first.Addr() == second.Addr() {
		t.Fatalf("both listen on %s", first.Addr())
	}
	first.Kill()
	if _, _, err := connect(t, dial(t, second), "", ""); err != nil {
		t.Errorf("the second broker after the first was killed: %v", err)
	}
}

func TestMessagesFlow(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	client, _, err := connect(t, dial(t, broker), "", "")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan []byte, 1)
	remove := client.AddOnPublishReceived(func(in paho.PublishReceived) (bool, error) {
		got <- in.Packet.Payload
		return true, nil
	})
	defer remove()
	subscription := &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "/echo", QoS: 1}}}
	if _, err := client.Subscribe(t.Context(), subscription); err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("x"), 1<<20)
	if _, err := client.Publish(t.Context(), &paho.Publish{Topic: "/echo", QoS: 1, Payload: want}); err != nil {
		t.Fatal(err)
	}
	select {
	case payload := <-got:
		if !bytes.Equal(payload, want) {
			t.Errorf("payload of %d bytes came back as %d bytes", len(want), len(payload))
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the message did not come back")
	}
}

// TestConfig checks that only the given configuration counts, on the port that it receives, also
// after a restart.
func TestConfig(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{MaxInflight: 5, Config: func(port int) string {
		return fmt.Sprintf("listener %d 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 7\nlog_dest "+
			"stderr\nlog_type all", port)
	}})
	for range 2 {
		_, ack, err := connect(t, dial(t, broker), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if m := ack.Properties.ReceiveMaximum; m == nil || *m != 7 {
			t.Errorf("receive maximum %v, want that of the configuration", m)
		}
		broker.Restart()
	}
}
