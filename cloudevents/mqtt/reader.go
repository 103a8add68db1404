// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/eclipse/paho.golang/packets"
)

const (
	smallBuffer = 2 << 10
	largeBuffer = 16 << 10
)

// errMalformed is the error for bytes that are not MQTT.
var errMalformed = errors.New("the broker sent something that is not MQTT: malformed packet length")

// reader buffers the small reads of paho. Its buffer is small on a quiet connection and grows while
// received data does not fit.
//
// It also checks the length of packets: paho accepts any number of length bytes, and allocates as
// much memory as they state. MQTT allows four.
type reader struct {
	source     func([]byte) (int, error)
	small      []byte
	buf        []byte
	start, end int // unread part of buf

	first  byte   // of the packet's fixed header
	header int    // number of bytes of the fixed header that were returned; negative after it
	length int    // of the rest of the packet, as far as the header is known; then the remaining bytes
	held   []byte // bytes of the rest that were read and not returned
}

func (r *reader) init(source func([]byte) (int, error)) {
	r.source = source
	r.small = make([]byte, smallBuffer)
	r.buf = r.small
}

// read returns bytes of one packet only, and io.EOF with the last of those that follow its fixed
// header. paho reads them into a bytes.Buffer of their size, which would more than double itself
// for another read that finds the end. paho checks that the number of bytes is complete.
func (r *reader) read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.header >= 0 {
		n, err := r.take(p[:1])
		if n == 0 {
			return 0, err
		}
		if err := r.headerByte(p[0]); err != nil {
			return 0, err // without the byte: io.ReadFull drops an error that is returned with the last one
		}
		return n, nil
	}
	var n int
	var err error
	if len(r.held) > 0 {
		n = copy(p, r.held)
		if r.held = r.held[n:]; len(r.held) == 0 {
			r.held = nil
		}
	} else {
		n, err = r.take(p[:min(len(p), r.length)])
	}
	if r.length -= n; r.length == 0 {
		r.header = 0
		err = io.EOF // end of the packet
	}
	return n, err
}

// headerByte parses a byte of the fixed header: type, then the length in up to four bytes of seven
// bits. header is negative in the rest of the packet.
func (r *reader) headerByte(b byte) error {
	if r.header == 0 {
		r.first, r.header, r.length = b, 1, 0
		return nil
	}
	if r.header == 4 && b&0x80 != 0 || r.header > 4 {
		return errMalformed
	}
	r.length |= int(b&0x7f) << (7 * (r.header - 1))
	r.header++
	switch {
	case b&0x80 != 0:
	case r.length == 0:
		r.header = 0
	default:
		r.header = -1
		if r.first>>4 == packets.PUBLISH && r.length > maxProperties {
			return r.dropProperties()
		}
	}
	return nil
}

// maxProperties is the limit of a message's properties in bytes. A property has at least five
// bytes, and paho allocates kilobytes for it.
const maxProperties = 256 << 10

// droppedProperties is the content type of a message that had too many properties.
const droppedProperties = "properties of more than 262144 bytes"

// dropProperties reads a message up to the length of its properties. If they exceed maxProperties,
// it replaces them with droppedProperties, and paho reads the remaining bytes as payload.
func (r *reader) dropProperties() error {
	if err := r.hold(2); err != nil {
		return err
	}
	rest := int(binary.BigEndian.Uint16(r.held)) // of the topic
	if qos := r.first >> 1 & 3; qos > 0 {
		rest += 2 // the packet's identifier
	}
	if err := r.hold(rest); err != nil {
		return err
	}
	properties, begin := 0, len(r.held)
	for more := true; more; {
		i := len(r.held) - begin
		if i == 4 {
			return errMalformed
		}
		if err := r.hold(1); err != nil {
			return err
		}
		b := r.held[len(r.held)-1]
		properties |= int(b&0x7f) << (7 * i)
		more = b&0x80 != 0
	}
	if properties <= maxProperties {
		return nil
	}
	end := len(r.held)
	if err := r.hold(3 + len(droppedProperties)); err != nil {
		return err
	}
	left := len(r.held) - end
	for i := range r.held[begin:end] {
		r.held[begin+i] = r.held[begin+i]&0x80 | byte(left>>(7*i)&0x7f)
	}
	r.held = append(r.held[:end], packets.PropContentType, 0, byte(len(droppedProperties)))
	r.held = append(r.held, droppedProperties...)
	return nil
}

func (r *reader) hold(n int) error {
	for n > 0 && len(r.held) < r.length {
		at := len(r.held)
		r.held = append(r.held, make([]byte, min(n, r.length-at))...)
		got, err := r.take(r.held[at:])
		r.held = r.held[:at+got]
		if got == 0 && err != nil {
			return err
		}
		n -= got
	}
	if n > 0 {
		return errMalformed
	}
	return nil
}

func (r *reader) take(p []byte) (int, error) {
	if r.start == r.end {
		if len(p) >= len(r.buf) {
			n, err := r.source(p) // a long read needs no buffer
			if n > 0 {
				err = nil // the next read returns it again
			}
			return n, err
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.buf[r.start:r.end])
	r.start += n
	return n, nil
}

// fill reads once into the empty buffer. It first selects the size of the buffer by the size of the
// last read.
func (r *reader) fill() error {
	switch {
	case r.end == smallBuffer && len(r.buf) == smallBuffer:
		r.buf = make([]byte, largeBuffer)
	case r.end < smallBuffer && len(r.buf) == largeBuffer:
		r.buf = r.small
	}
	n, err := r.source(r.buf)
	r.start, r.end = 0, n
	if n > 0 {
		return nil // the next read returns the error again
	}
	return err
}
