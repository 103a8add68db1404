// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package unfinished

import "encoding/binary"

// preface begins the connection of a client (RFC 9113, section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Types and flags of frames (RFC 9113, section 6).
const (
	frameData, frameHeaders, frameReset = 0x0, 0x1, 0x3

	flagEndStream, flagPadded = 0x1, 0x8
)

// frame is the header of a frame.
type frame struct {
	length      int
	kind, flags byte
	id          uint32 // of the stream
}

func (f frame) endsStream() bool {
	return f.kind == frameReset || (f.kind == frameData || f.kind == frameHeaders) && f.flags&flagEndStream != 0
}

// walker finds the frames in one direction of an HTTP/2 connection.
type walker struct {
	frame func(f frame, end bool)      // after each header, and at the end of the frame
	data  func(id uint32, data []byte) // for each part of the data of a frame, without its padding

	preface int // bytes of it that are missing
	header  [9]byte
	have    int // bytes of header

	current frame
	left    int  // bytes of the payload that are missing
	padding int  // the last of them
	padded  bool // the next byte is the length of the padding
}

func (w *walker) walk(b []byte) {
	for len(b) > 0 {
		var n int
		switch {
		case w.preface > 0:
			n = min(w.preface, len(b))
			w.preface -= n
		case w.have < len(w.header):
			n = copy(w.header[w.have:], b)
			if w.have += n; w.have == len(w.header) {
				w.begin()
			}
		case w.padded:
			n = 1
			w.left--
			w.padded, w.padding = false, min(int(b[0]), w.left)
		default:
			n = min(w.left, len(b))
			if data := min(n, w.left-w.padding); data > 0 && w.current.kind == frameData {
				w.data(w.current.id, b[:data])
			}
			w.left -= n
		}
		b = b[n:]
		if w.have == len(w.header) && w.left == 0 {
			w.frame(w.current, true)
			w.have = 0
		}
	}
}

func (w *walker) begin() {
	h := w.header
	w.current = frame{
		length: int(h[0])<<16 | int(h[1])<<8 | int(h[2]), kind: h[3], flags: h[4],
		id: binary.BigEndian.Uint32(h[5:]) & (1<<31 - 1),
	}
	w.left, w.padding = w.current.length, 0
	w.padded = w.current.kind == frameData && w.current.flags&flagPadded != 0 && w.left > 0
	w.frame(w.current, false)
}
