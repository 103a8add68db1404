// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import "encoding/binary"

// The parts of HTTP/2 (RFC 9113) and of gRPC that the budget needs.
const (
	prefaceLength     = 24
	frameHeaderLength = 9
	resetLength       = 4
	messageHeader     = 5

	frameData    = 0x0
	frameHeaders = 0x1
	frameReset   = 0x3
	flagEnd      = 0x1

	// frameSizeError is the code with which gRPC resets a call that has a too large header.
	frameSizeError = 0x6
)

type frame struct {
	length int
	kind   byte
	ends   bool
	stream uint32
	code   uint32 // of a reset
}

// frames finds the headers of frames, and the codes of resets, in one direction of a connection.
type frames struct {
	skip  int // bytes until the next header
	start [frameHeaderLength + resetLength]byte
	have  int
}

func (s *frames) scan(p []byte, each func(frame)) {
	for len(p) > 0 {
		if n := min(s.skip, len(p)); n > 0 {
			s.skip -= n
			p = p[n:]
			continue
		}
		need := frameHeaderLength
		if s.have >= need {
			need += resetLength
		}
		n := copy(s.start[s.have:need], p)
		s.have += n
		p = p[n:]
		if s.have < need {
			return
		}
		h := s.start
		f := frame{
			length: int(h[0])<<16 | int(h[1])<<8 | int(h[2]), kind: h[3], ends: h[4]&flagEnd != 0,
			stream: binary.BigEndian.Uint32(h[5:]) &^ (1 << 31),
		}
		if f.kind == frameReset && f.length == resetLength && need == frameHeaderLength {
			continue
		}
		if need > frameHeaderLength {
			f.code = binary.BigEndian.Uint32(h[frameHeaderLength:])
		}
		s.have, s.skip = 0, f.length-(need-frameHeaderLength)
		each(f)
	}
}
