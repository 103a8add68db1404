// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/topicfilter"
)

const (
	attributePrefix = "ce-"    // of attribute names, as in cloudevents/sdk-go
	longestString   = 65535    // bytes of a string or property, in MQTT
	headroom        = 1 << 10  // bytes of the attributes of most events in structured mode
	largestPacket   = 16 << 20 // bytes, to send or receive; MQTT allows 256 MiB
)

// encode makes the MQTT message for an event. In structured mode the payload is appended to
// scratch.
func encode(m cloudevents.Message, binary bool, scratch []byte) (*paho.Publish, error) {
	if err := checkTopic(m.Topic); err != nil {
		return nil, err
	}
	p := &paho.Publish{QoS: 1, Topic: m.Topic, Properties: &paho.PublishProperties{}}
	// If the data of a binary message is a structured event, receivers would read that event
	// instead.
	if binary && m.Event != nil && !isStructured(m.Event.DataContentType()) {
		return p, encodeBinary(m, p)
	}
	if m.Event != nil && cap(scratch) < len(m.Event.DataEncoded)+headroom {
		scratch = make([]byte, 0, len(m.Event.DataEncoded)+headroom)
	}
	var err error
	p.Payload, err = codec.AppendStructured(scratch, m.Event)
	p.Properties.ContentType = codec.ContentTypeStructured
	return p, err
}

func encodeBinary(m cloudevents.Message, p *paho.Publish) error {
	if err := m.Event.Validate(); err != nil {
		return fmt.Errorf("not a CloudEvent: %w", err)
	}
	p.Properties.User = make(paho.UserProperties, 0, 12)
	for name, value := range codec.Attributes(m.Event) {
		if len(value) > longestString {
			return fmt.Errorf("attribute %s: %w", name,
				&cloudevents.TooLargeError{Topic: m.Topic, Size: len(value), Limit: longestString})
		}
		if err := checkString(value); err != nil {
			return fmt.Errorf("attribute %s %w", name, err)
		}
		p.Properties.User = append(p.Properties.User, paho.UserProperty{Key: attributePrefix + name, Value: value})
	}
	p.Properties.ContentType = m.Event.DataContentType()
	if err := checkString(p.Properties.ContentType); err != nil {
		return fmt.Errorf("attribute datacontenttype %w", err)
	}
	p.Payload = m.Event.Data()
	return nil
}

func decode(p *packets.Publish) (*ce.Event, error) {
	contentType := p.Properties.ContentType
	if contentType == droppedProperties {
		return nil, errors.New("the message has " + droppedProperties)
	}
	if isStructured(contentType) {
		return codec.ParseStructured(p.Payload)
	}
	prefixed, plain := false, false
	for _, u := range p.Properties.User {
		prefixed = prefixed || strings.EqualFold(u.Key, attributePrefix+"specversion")
		plain = plain || strings.EqualFold(u.Key, "specversion")
	}
	switch {
	case prefixed || plain:
		return codec.FromAttributes(func(yield func(string, string) bool) {
			for _, u := range p.Properties.User {
				// If the sender uses the prefix, properties without it are not attributes.
				if prefixed && !strings.HasPrefix(strings.ToLower(u.Key), attributePrefix) {
					continue
				}
				if !yield(u.Key, u.Value) {
					return
				}
			}
		}, contentType, p.Payload)
	case contentType == "":
		return codec.ParseStructured(p.Payload)
	}
	return nil, fmt.Errorf("not a CloudEvent: content type %.100q and no user property %sspecversion",
		contentType, attributePrefix)
}

// isStructured reports whether a content type is that of an event in structured mode, or that of a
// batch, which is refused when it is parsed.
func isStructured(contentType string) bool {
	const prefix = "application/cloudevents"
	return len(contentType) >= len(prefix) && strings.EqualFold(contentType[:len(prefix)], prefix)
}

// packetSize returns the size of the whole packet in bytes, as the broker's limit counts it.
func packetSize(p *paho.Publish) int {
	properties := 0
	if p.Properties.ContentType != "" {
		properties += 3 + len(p.Properties.ContentType)
	}
	for _, u := range p.Properties.User {
		properties += 5 + len(u.Key) + len(u.Value)
	}
	rest := 2 + len(p.Topic) + 2 + lengthSize(properties) + properties + len(p.Payload)
	return 1 + lengthSize(rest) + rest
}

func lengthSize(n int) int {
	size := 1
	for n >= 128 {
		n >>= 7
		size++
	}
	return size
}

// checkTopic refuses topics for which the broker would end the connection.
func checkTopic(topic string) error {
	switch {
	case topic == "":
		return errors.New("the topic is empty")
	case strings.ContainsAny(topic, "+#"):
		return fmt.Errorf("topic %q: must not contain + or #", topic)
	case len(topic) > longestString:
		return fmt.Errorf("a topic of %d bytes: MQTT allows %d", len(topic), longestString)
	}
	if err := checkString(topic); err != nil {
		return fmt.Errorf("topic %q %w", topic, err)
	}
	return nil
}

func checkFilter(filter string) error {
	if len(filter) > longestString {
		return fmt.Errorf("a topic filter of %d bytes: MQTT allows %d", len(filter), longestString)
	}
	if _, err := topicfilter.Parse(filter); err != nil {
		return err
	}
	if err := checkString(filter); err != nil {
		return fmt.Errorf("topic filter %q %w", filter, err)
	}
	return nil
}

// checkString refuses characters that an MQTT string must or should not contain (v5, section 1.5.4)
// and a CloudEvents String cannot. Mosquitto ends the connection because of them.
func checkString(s string) error {
	if len(s) > longestString {
		return fmt.Errorf("has %d bytes: MQTT allows %d", len(s), longestString)
	}
	for _, r := range s {
		if r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xfdd0 && r <= 0xfdef || r&0xfffe == 0xfffe {
			return fmt.Errorf("contains the character %U, which MQTT does not allow", r)
		}
	}
	if !utf8.ValidString(s) {
		return errors.New("is not UTF-8")
	}
	return nil
}
