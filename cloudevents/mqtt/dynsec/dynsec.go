// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynsec

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/tlsfiles"
)

const (
	requests  = "$CONTROL/dynamic-security/v1"
	responses = requests + "/response"

	// batch is the number of commands in a message.
	batch          = 100
	defaultTimeout = 10 * time.Second
	keepAlive      = 30 // seconds
)

// Options configures a [Client]. Broker.BrokerURL and SourceID are required.
type Options struct {
	// Broker is the connection to the broker, as that of the source. Its user needs the rights of
	// [Config]. WebSockets are not supported. ConnectTimeout bounds each message of Apply.
	Broker mqtt.Options
	// SourceID is the source that agents may serve, with the profile of the enhancement.
	SourceID string
}

// Client changes the users of a broker. Its methods may be called from any goroutine.
type Client struct {
	options Options
	address string
	tls     *tlsfiles.Client // nil without TLS
	host    string
}

// New returns a client. It validates the options and does not connect.
func New(o Options) (*Client, error) {
	if _, err := mqtt.New(o.Broker); err != nil {
		return nil, err
	}
	if o.SourceID == "" {
		return nil, errors.New("dynsec options: SourceID is required")
	}
	u, err := url.Parse(o.Broker.BrokerURL)
	if err != nil {
		return nil, errors.New("dynsec options: invalid Broker.BrokerURL")
	}
	c := &Client{options: o, host: u.Hostname()}
	port := "1883"
	switch u.Scheme {
	case "mqtt":
	case "mqtts":
		port = "8883"
		c.tls = &tlsfiles.Client{
			Base: o.Broker.TLS, CAFile: o.Broker.CAFile, CertFile: o.Broker.CertFile, KeyFile: o.Broker.KeyFile,
		}
	default:
		return nil, fmt.Errorf("dynsec options: invalid Broker.BrokerURL: scheme %s: must be mqtts or mqtt", u.Scheme)
	}
	c.address = net.JoinHostPort(c.host, cmp.Or(u.Port(), port))
	return c, nil
}

// Apply admits and refuses clusters. It is for [join.ServerOptions].Apply. It returns an error if the
// broker does not answer, has no plugin, or refuses a command.
func (c *Client) Apply(ctx context.Context, changes []join.Change) error {
	var all []command
	for _, change := range changes {
		all = append(all, commandsFor(c.options.SourceID, change)...)
	}
	session, err := c.connect(ctx)
	if err != nil {
		return fmt.Errorf("dynamic security of the broker: %w", err)
	}
	defer session.close()
	for some := range slices.Chunk(all, batch) {
		if err := session.send(ctx, some); err != nil {
			return fmt.Errorf("dynamic security of the broker: %w", err)
		}
	}
	return nil
}

// session is a connection with a subscription to the answers.
type session struct {
	client  *paho.Client
	timeout time.Duration
	answers chan []byte
}

func (c *Client) timeout() time.Duration {
	return cmp.Or(c.options.Broker.ConnectTimeout, defaultTimeout)
}

func (c *Client) connect(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{timeout: c.timeout(), answers: make(chan []byte, 16)}
	s.client = paho.NewClient(paho.ClientConfig{
		Conn: packets.NewThreadSafeConn(conn), // paho pings while it writes other packets
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){
			func(p paho.PublishReceived) (bool, error) {
				select {
				case s.answers <- p.Packet.Payload:
				default: // an answer to another client
				}
				return true, nil
			},
		},
	})
	connect := &paho.Connect{CleanStart: true, KeepAlive: keepAlive}
	if connect.Username, connect.Password, err = c.credentials(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	connect.UsernameFlag, connect.PasswordFlag = connect.Username != "", len(connect.Password) > 0
	if _, err := s.client.Connect(ctx, connect); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	_, err = s.client.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: responses, QoS: 1}}})
	if err != nil {
		s.close()
		return nil, fmt.Errorf("subscribe to %s: %w: does the user have the rights?", responses, err)
	}
	return s, nil
}

func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", c.address)
	if err != nil || c.tls == nil {
		return raw, err
	}
	config, err := c.tls.Config(c.host)
	if err == nil {
		conn := tls.Client(raw, config)
		if err = conn.HandshakeContext(ctx); err == nil {
			return conn, nil
		}
	}
	_ = raw.Close()
	return nil, err
}

func (s *session) close() { _ = s.client.Disconnect(&paho.Disconnect{}) }

// command is a command of the plugin. Errors in ignored mean that it has no effect.
type command struct {
	fields  map[string]any
	ignored string
}

// send sends commands in one message, and checks the answers.
func (s *session) send(ctx context.Context, all []command) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	fields := make([]map[string]any, len(all))
	prefix := strconv.FormatInt(time.Now().UnixNano(), 36) + "/"
	for i, c := range all {
		fields[i] = c.fields
		fields[i]["correlationData"] = prefix + strconv.Itoa(i)
	}
	content, err := json.Marshal(map[string]any{"commands": fields})
	if err != nil {
		return err
	}
	if _, err = s.client.Publish(ctx, &paho.Publish{Topic: requests, QoS: 1, Payload: content}); err != nil {
		return fmt.Errorf("publish to %s: %w: does the user have the rights?", requests, err)
	}
	answered := map[string]string{} // errors, by correlation data
	for len(answered) < len(all) {
		var content []byte
		select {
		case content = <-s.answers:
		case <-s.client.Done():
			return errors.New("the connection ended before the answer")
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w: does the broker have the plugin?", ctx.Err())
		}
		var answer struct {
			Responses []struct {
				Error           string `json:"error"`
				CorrelationData string `json:"correlationData"`
			} `json:"responses"`
		}
		if err := json.Unmarshal(content, &answer); err != nil {
			return fmt.Errorf("the answer is not that of the plugin: %w", err)
		}
		for _, r := range answer.Responses {
			answered[r.CorrelationData] = r.Error
		}
	}
	for i, c := range all {
		if problem, ok := answered[prefix+strconv.Itoa(i)]; !ok || problem != "" && problem != c.ignored {
			return fmt.Errorf("command %v: %s", c.fields["command"], cmp.Or(problem, "no answer"))
		}
	}
	return nil
}
