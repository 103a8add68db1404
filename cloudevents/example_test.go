// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cloudevents_test

import (
	"context"
	"fmt"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
)

// greeter is the protocol of a client that sends a greeting on each connection and receives it
// itself.
type greeter struct {
	engine *cloudevents.Engine
	heard  chan string
}

func (g *greeter) Connected(context.Context) {
	g.engine.Enqueue(cloudevents.Live, greeting{}.item(g.heard))
}
func (g *greeter) Disconnected()                   {}
func (g *greeter) Received(m cloudevents.Message)  { g.heard <- "received " + m.Event.ID() }
func (g *greeter) Refused(topic string, err error) { g.heard <- topic + ": " + err.Error() }

// greeting is an item of the outbox. Its message is created when it is sent.
type greeting struct{ settled chan string }

func (greeting) item(settled chan string) *greeting { return &greeting{settled} }

func (g *greeting) Message() (cloudevents.Message, error) {
	e := ce.New()
	e.SetID("hello")
	e.SetType("com.example.greeting")
	e.SetSource("greeter")
	return cloudevents.Message{Topic: "greetings", Event: &e}, nil
}

func (g *greeting) Settled(err error) { g.settled <- fmt.Sprint("settled ", err) }

// An engine keeps a client connected. The Handler of the client sends and receives its messages.
func ExampleNewEngine() {
	handler := &greeter{heard: make(chan string, 2)}
	engine, err := cloudevents.NewEngine(memory.New().Transport(), cloudevents.Options{
		Name: "greeter", Filters: []string{"greetings"}, Handler: handler,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler.engine = engine
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- engine.Start(ctx) }()
	fmt.Println(<-handler.heard)
	fmt.Println(<-handler.heard)
	cancel()
	fmt.Println(<-ended)
	// Unordered output:
	// received hello
	// settled <nil>
	// <nil>
}
